"""Fairlead: an operator that moves bulk data between data transfer nodes, fast for the job and fair to others."""
