"""A labelled set of traces: what is to be run (plan), running it, and the compact result."""
