"""The first transfer, shown: see `make demo`."""
