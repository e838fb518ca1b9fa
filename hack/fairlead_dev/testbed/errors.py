"""What can go wrong, and who is to blame."""

from __future__ import annotations


class TestbedError(Exception):
    """A failure with a message for a person; `exit_code` is the command's."""

    __test__ = False
    exit_code = 1


class UsageError(TestbedError):
    """The caller's arguments or files cannot be used as they are."""

    exit_code = 2


class LabError(TestbedError):
    """This machine, or a program of the test bed on it, did not do its part; another try may help."""
