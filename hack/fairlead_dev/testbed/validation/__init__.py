"""The emulated path against theory, and the congestion controls against each other."""
