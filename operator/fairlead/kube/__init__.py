"""Effects on the cluster: gather what is observed, build objects, apply plans. Decisions live in `core`."""
