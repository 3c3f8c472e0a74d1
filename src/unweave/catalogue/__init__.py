"""Documentation pages generated from the code."""
