"""What is promised and what it cost: units, events, ledgers, accountants, mechanisms."""
