"""The loop of the OPS paper, as the bench's rival: its classifier, its sampling at 1 Hz, its rule."""
