"""Samples a path's round-trip time by keyed UDP echo: `wire`, `schedule` and `session` take times and bytes, `socket` does the effects."""
