"""Small tools with no opinion on privacy or flows."""
