"""The loop beside a mover: measure, decide, apply, watch, and decide again."""
