"""Specification fuzzing: every field of every kind changed on a live system, and reverted."""
