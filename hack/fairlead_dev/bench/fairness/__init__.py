"""Shares among real movers, managed by the operator's own decisions and left to themselves."""
