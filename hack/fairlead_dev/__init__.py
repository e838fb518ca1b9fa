"""Fairlead's development tools: the local cluster, the test bed, the benches, the demo, and what they share."""
