"""What goes wrong in a measurement."""

from __future__ import annotations


class BenchError(Exception):
    """A measurement could not be made; the message says what ran and what it said."""


class NotAvailableError(BenchError):
    """Something that is compared with is not on this machine and could not be installed; the message has the remedy."""


class LimitError(BenchError):
    """Something took longer than its limit."""
