"""The agent of a data transfer node: finds what the node has, writes it into its DataTransferNode and serves it with counters."""
