"""Directory trees for demonstrations and tests: planned, written, listed and compared without the mover's help."""
