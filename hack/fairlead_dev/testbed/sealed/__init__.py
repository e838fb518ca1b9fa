"""Paths that are put aside for final figures before anything is fitted, and the log of who has looked at their runs."""
