"""The life of a job: `decide` turns what is observed, and the time, into a plan."""

from fairlead.core.lifecycle.machine import decide

__all__ = ["decide"]
