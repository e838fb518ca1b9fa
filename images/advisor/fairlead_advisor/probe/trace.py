"""The trace file: CSV with the header `send_time_s,rtt_ms`, one row per echo request, an empty `rtt_ms` for a lost one."""

import csv
import math
import os
import re
import stat
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO

from fairlead_advisor.errors import TraceError
from fairlead_advisor.files import write_atomically

HEADER = ("send_time_s", "rtt_ms")
MAXIMUM_BYTES = 64 * 1024 * 1024

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,4})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Trace:
    """Requests in the order of sending: when (s) and the round-trip time (ms, NaN for a lost one), in two columns of equal length."""

    send_times_s: "array[float]"
    rtts_ms: "array[float]"

    def __len__(self) -> int:
        return len(self.send_times_s)

    def rows(self) -> Iterator[tuple[float, float | None]]:
        """Pairs of the send time in s and the round-trip time in ms, None for a lost request."""
        for send_time_s, rtt_ms in zip(self.send_times_s, self.rtts_ms, strict=True):
            yield send_time_s, None if math.isnan(rtt_ms) else rtt_ms

    def answered_rtts_ms(self) -> list[float]:
        """The round-trip times of the answered requests, in the order of sending."""
        return [rtt_ms for rtt_ms in self.rtts_ms if not math.isnan(rtt_ms)]


def write_trace(path: Path, trace: Trace) -> None:
    """Writes `trace` so that `path` holds either all of it or what it held before; OutputError when it cannot be written."""
    lines = [",".join(HEADER)]
    lines.extend(f"{send_time_s:.6f},{'' if rtt_ms is None else f'{rtt_ms:.4f}'}" for send_time_s, rtt_ms in trace.rows())
    write_atomically(path, ("\n".join(lines) + "\n").encode("ascii"))


def read_trace(path: Path) -> Trace:
    """The trace in `path`; TraceError names the file, the line and the remedy if it is not one."""
    with _open_regular(path) as file:
        try:
            return _parse(path, file)
        except UnicodeDecodeError:
            raise TraceError(f"{path}: not UTF-8 text: a trace is a CSV file as written by `fairlead-advisor probe`") from None
        except csv.Error as error:
            raise TraceError(f"{path}: not CSV ({error}): a trace is a CSV file as written by `fairlead-advisor probe`") from None
        except OSError as error:
            raise TraceError(f"{path}: cannot be read: {error.strerror}") from None


def _open_regular(path: Path) -> TextIO:
    try:
        # Non-blocking, so that opening a named pipe does not wait for its writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise TraceError(f"{path}: no such file: write one with `fairlead-advisor probe --output {path}`") from None
    except (OSError, ValueError) as error:
        raise TraceError(f"{path}: cannot be opened: {getattr(error, 'strerror', None) or error}") from None
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode) and 0 < found.st_size <= MAXIMUM_BYTES:
        # utf-8-sig: spreadsheets put a byte-order mark before the header.
        return TextIOWrapper(os.fdopen(descriptor, "rb"), encoding="utf-8-sig", newline="")
    os.close(descriptor)
    if stat.S_ISDIR(found.st_mode):
        raise TraceError(f"{path}: is a directory: name one trace file in it")
    if not stat.S_ISREG(found.st_mode):
        raise TraceError(f"{path}: is not a regular file: copy the trace to one")
    if found.st_size == 0:
        raise TraceError(f"{path}: is empty: probe again, the header `{','.join(HEADER)}` comes first")
    raise TraceError(
        f"{path}: has {found.st_size} bytes, at most {MAXIMUM_BYTES} are read: cut the part of interest out of it and keep the header"
    )


def _parse(path: Path, file: TextIO) -> Trace:
    rows = csv.reader(file, strict=True)
    header = next(rows, [])
    if tuple(name.strip() for name in header) != HEADER:
        raise TraceError(f"{path}: line 1: the header is {_shown(','.join(header))}, it must be `{','.join(HEADER)}`")
    send_times_s: array[float] = array("d")
    rtts_ms: array[float] = array("d")
    for row in rows:
        where = f"{path}: line {rows.line_num}"
        if len(row) != len(HEADER):
            raise TraceError(f"{where}: {len(row)} column(s) where there must be 2: a lost request is written as `12.35,` with its comma")
        send_time_s = _number(where, "send_time_s", row[0])
        if send_times_s and send_time_s < send_times_s[-1]:
            raise TraceError(
                f"{where}: send_time_s {send_time_s:g} is before {send_times_s[-1]:g} of the row before: sort the rows by time"
            )
        send_times_s.append(send_time_s)
        rtts_ms.append(_number(where, "rtt_ms", row[1]) if row[1].strip() else math.nan)
    return Trace(send_times_s, rtts_ms)


def _number(where: str, column: str, text: str) -> float:
    remedy = "it must be a number of 0 or more" + (", or empty for a lost request" if column == "rtt_ms" else "")
    if not _NUMBER.fullmatch(text.strip()):
        raise TraceError(f"{where}: {column} is {_shown(text)}: {remedy}")
    value = float(text)
    if value < 0 or math.isinf(value):
        raise TraceError(f"{where}: {column} is {_shown(text)}: {remedy}")
    return value


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:60] + "…")
