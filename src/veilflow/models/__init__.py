"""The systems a user fits: short files that assemble flows, engine and ledger."""
