"""What messages of movers and advisors must be like to be accepted: their types, the greatest value of each field, and their text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from fairlead.core.reports import PreflightCheck

LONGEST_TERMINATION_MESSAGE = 4096
"""Bytes; the kubelet cuts longer ones."""

LARGEST_BODY_BYTES = 64 * 1024
LONGEST_MESSAGE = 1024
LONGEST_CPU_LIST = 2048
_LONGEST_PROBLEM = 200

MOST_BYTES = 2**62 - 1
"""The sum of two such counts still fits into 64 bits with a sign."""
MOST_FILES = 2**40
MOST_STREAMS = 1024
"""Far more than any mover opens, and little enough that nothing that is allowed for each stream adds up."""
MOST_ATTEMPTS = 2**31 - 1
FASTEST_BYTES_PER_SECOND = 1e18
"""Holes count as bytes that arrived, so a rate may be far above that of any network."""
LONGEST_SECONDS = 1e9
LONGEST_RTT_SECONDS = 3600.0
_EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST = datetime(2200, 1, 1, tzinfo=UTC)


def _without_sign(value: float) -> float:
    """0.0 for -0.0, which passes for a number from 0 and prints with a sign."""
    return value + 0.0


def _in_our_time(moment: datetime) -> datetime:
    """`moment` in UTC; raises ValueError outside of what every clock and time zone can express."""
    if not _EARLIEST <= moment < _LATEST:
        raise ValueError("must lie between the years 1970 and 2200")
    return moment.astimezone(UTC)


Count = Annotated[int, Field(ge=0, le=MOST_BYTES)]
FileCount = Annotated[int, Field(ge=0, le=MOST_FILES)]
StreamCount = Annotated[int, Field(ge=0, le=MOST_STREAMS)]
Attempt = Annotated[int, Field(ge=0, le=MOST_ATTEMPTS)]
BytesPerSecond = Annotated[float, Field(ge=0, le=FASTEST_BYTES_PER_SECOND, allow_inf_nan=False), AfterValidator(_without_sign)]
Seconds = Annotated[float, Field(ge=0, le=LONGEST_SECONDS, allow_inf_nan=False), AfterValidator(_without_sign)]
RttSeconds = Annotated[float, Field(ge=0, le=LONGEST_RTT_SECONDS, allow_inf_nan=False), AfterValidator(_without_sign)]
Ratio = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False), AfterValidator(_without_sign)]
Moment = Annotated[AwareDatetime, AfterValidator(_in_our_time)]
Version = Annotated[int, Field(ge=1, le=1)]
"""The one version of messages that there is; a literal 1 would let `true` pass."""
JobUid = Annotated[str, Field(max_length=64)]
Word = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_\-]{0,63}$")]
Reason = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9]{0,63}$")]
Control = Annotated[str, Field(pattern=r"^[a-z0-9_+\-]{0,15}$")]
"""As the kernel names them: `dctcp-reno` is in force where the receiver does not agree to `dctcp`."""
CpuList = Annotated[str, Field(max_length=LONGEST_CPU_LIST, pattern=r"^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$")]
Interface = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.:@\-]{0,14}$")]


class ReportError(ValueError):
    """A message that is not accepted; the text names the field and what is wrong with it, without its value."""


class MoverMessage(BaseModel):
    """A message whose values have exactly the types that are written down, and whose unknown fields, of later versions, are ignored."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")


MOST_CHECKS = 16
"""Checks of one end that are taken; a mover has less."""


class CheckMessage(MoverMessage):
    """One check before the data, as a mover reports it."""

    check: Word
    result: Literal["Passed", "Warning", "Failed"]
    reason: Reason | None = None
    message: str = ""


Checks = Annotated[tuple[CheckMessage, ...], Field(max_length=MOST_CHECKS, strict=False)]


def read_checks(checks: Sequence[CheckMessage]) -> tuple[PreflightCheck, ...]:
    """The checks with text that people may be shown."""
    return tuple(PreflightCheck(each.check, each.result, each.reason, printable(each.message)) for each in checks)


MessageT = TypeVar("MessageT", bound=MoverMessage)


def parse_message(form: type[MessageT], body: bytes, most_bytes: int = LARGEST_BODY_BYTES) -> MessageT:
    """The message in `body`, JSON in UTF-8. Raises ReportError and nothing else, whatever the body is."""
    if len(body) > most_bytes:
        raise ReportError(f"more than {most_bytes} bytes")
    try:
        # First by the strict parser, which bounds the depth to 200: the second one, which sees names that come twice, recurses too.
        message = form.model_validate_json(body)
        json.loads(body, object_pairs_hook=_without_doubles, parse_constant=_refuse_constant)
    except ValidationError as error:
        raise ReportError(_first_problem(error)) from error
    except (ValueError, RecursionError) as error:
        raise ReportError(printable(str(error), _LONGEST_PROBLEM)) from error
    return message


def encoded(text: str) -> bytes:
    """A termination message in UTF-8; characters that have no such form become ones that no message may hold."""
    return text.encode(errors="replace")


def printable(text: str, longest: int = LONGEST_MESSAGE) -> str:
    """`text` without control characters and of bounded length: it goes into the status of an object that people print."""
    clean = "".join(character if character.isprintable() else " " for character in text[: longest + 1])
    return clean if len(clean) <= longest else clean[: longest - 1] + "…"


def _without_doubles(pairs: list[tuple[str, Any]]) -> None:
    if len({name for name, _ in pairs}) != len(pairs):
        raise ReportError("a field comes twice")


def _refuse_constant(name: str) -> None:
    raise ReportError(f"{name} is no number")


def _first_problem(error: ValidationError) -> str:
    problem = error.errors(include_url=False, include_context=False, include_input=False)[0]
    field = ".".join(str(part) for part in problem["loc"])
    return printable(f"{field}: {problem['msg']}" if field else problem["msg"], _LONGEST_PROBLEM)
