"""Tables: from a declared schema to a flow over codes, and back to rows."""
