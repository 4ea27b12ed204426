"""What is asked of the columns of a table, each by itself."""
