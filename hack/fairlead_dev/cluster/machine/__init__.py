"""Processes, namespaces and settings of the machine that carries the cluster."""
