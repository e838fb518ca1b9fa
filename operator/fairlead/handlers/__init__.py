"""kopf as an event source, our own work queue, and the workers that gather, decide and apply."""
