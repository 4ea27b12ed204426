"""The command line: each command parses, makes one library call and prints."""
