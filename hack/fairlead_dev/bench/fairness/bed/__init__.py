"""The test bed: nodes with data interfaces around a router, movers on them, counters of each job, a slow disk."""
