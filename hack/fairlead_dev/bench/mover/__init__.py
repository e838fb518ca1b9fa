"""The mover beside the programs that people would use instead."""
