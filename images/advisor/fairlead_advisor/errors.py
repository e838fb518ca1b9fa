"""What can go wrong, who is to blame, and the exit code of each."""

from typing import ClassVar


class AdvisorError(Exception):
    """A failure with a message for a person. `exit_code` is the command's; `retryable`: whether trying again may help."""

    exit_code: ClassVar[int] = 1
    retryable: ClassVar[bool] = True


class UsageError(AdvisorError):
    """The caller's arguments or files cannot be used as they are."""

    exit_code = 2
    retryable = False


class NoModelError(AdvisorError):
    """There is no classifier to answer with."""

    exit_code = 3
    retryable = False


class ClassifierAnswerError(AdvisorError):
    """A classifier gave something that is no classification: the model is to blame."""

    retryable = False


class WireError(AdvisorError):
    """A datagram is not a valid echo datagram of this job: the network, or a stranger, is to blame."""

    retryable = False


class ProbeError(AdvisorError):
    """The path could not be measured: the local network set-up or the peer is to blame."""


class TraceError(UsageError):
    """A trace file breaks the format; the message names the file, the line and the remedy."""


class ModelError(UsageError):
    """A model file cannot be used; the message names the fault and the remedy."""


class DataError(UsageError):
    """A data set for training or evaluation cannot be used as it is; the message names the file and the remedy."""


class MissingPackageError(UsageError):
    """A command needs packages that the runtime does without."""


class RecordError(UsageError):
    """A record of decisions breaks the format; the message names the file, the line and the remedy."""


class OutputError(UsageError):
    """A file cannot be written where it was asked for."""


class MoverUnavailableError(AdvisorError):
    """The mover's control socket does not answer, or not yet."""


class MoverAnswerError(AdvisorError):
    """The mover answered something outside the contract."""

    retryable = False


class TransportRefusedError(AdvisorError):
    """The mover refused a transport setting (422); nothing was changed. `field` is the setting refused."""

    retryable = False

    def __init__(self, field: str, reason: str, message: str) -> None:
        super().__init__(message)
        self.field = field
        self.reason = reason


class NotQuietError(AdvisorError):
    """The path was not free of the transfer's own data in time: a slow path or deep buffers are to blame."""
