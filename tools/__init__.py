"""What measures the repository itself: how near it is to its plan, and what its tests catch."""
