"""Features of a window of round-trip times: one module for training and for the sidecar, numpy alone.

`series` brings requests onto an even grid, `distribution`, `spectrum`, `sawtooth` and `loss` each describe one side of it, and
`vector` puts them in order.
"""
