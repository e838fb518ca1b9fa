"""The sidecar as a process: how it starts and ends, and its HTTP."""
