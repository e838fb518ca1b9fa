"""The bench of placement: the choice of nodes and interfaces for a large cluster, and what several interfaces and pinning are worth."""
