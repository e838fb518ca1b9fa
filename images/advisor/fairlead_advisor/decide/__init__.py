"""Chooses the transport from what is known about a path: pure functions."""
