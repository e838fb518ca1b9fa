"""The sidecar's effects: asks the mover, probes, classifies, and drives the machines of `decide.loop`."""
