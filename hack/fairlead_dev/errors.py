"""What can go wrong, and who is to blame. Commands print the message and end with `exit_code`."""

from __future__ import annotations


class DevError(Exception):
    """A failure with a message for a person."""

    exit_code = 1


class CommandUsageError(DevError):
    """The caller's arguments or files cannot be used as they are."""

    exit_code = 2


class LabError(DevError):
    """This machine, or a program on it, did not do its part; the message has its output. Another try may help."""


class NotAvailableError(LabError):
    """A program is not on this machine and could not be installed; the message has the remedy."""


class LimitError(LabError):
    """Something took longer than its limit."""


class NoAnswerError(LabError):
    """A server does not answer yet or any more."""
