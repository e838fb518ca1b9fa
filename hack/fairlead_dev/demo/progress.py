"""A running job for the eyes: two lines from its status and from the link, redrawn on a terminal, printed anew elsewhere."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from typing import TextIO

from fairlead_dev.clients.kubectl import Object

BAR_CELLS = 10
CLEAR = "\x1b[K"
UP_TWO_LINES = "\x1b[2F"


@dataclass(frozen=True, slots=True)
class LinkSample:
    """What the link had carried towards the destination, in bytes, at a monotonic time in seconds."""

    at_s: float
    bytes_carried: int


def link_rate_mbps(before: LinkSample, now: LinkSample) -> float | None:
    """The mean rate between two samples in Mb/s; None where they give none."""
    seconds = now.at_s - before.at_s
    if seconds <= 0 or now.bytes_carried < before.bytes_carried:
        return None
    return (now.bytes_carried - before.bytes_carried) * 8 / seconds / 1e6


def megabytes(size_bytes: int) -> str:
    """Decimal megabytes for people."""
    return f"{size_bytes / 1e6:,.0f} MB"


def summary(job: Object, link_mbps: float | None) -> tuple[str, str]:
    """The job's state in two lines: how far it is, and how it goes there."""
    status = job.get("status", {})
    phase = str(status.get("phase", "Pending"))
    progress = status.get("progress", {})
    first = [f"{phase:<12}", *_progress(progress)]
    if phase == "Pending":
        first += _reason(status)
    second = [] if link_mbps is None else [f"link {link_mbps:5.1f} Mb/s"]
    if "rate" in progress:
        second.append(f"rate {progress['rate']}b/s")
    second += _path_and_decision(status)
    if int(status.get("attempts") or 1) > 1:
        second.append(f"attempt {status['attempts']}")
    return "  ".join(first), "  ".join(second)


def _progress(progress: Object) -> list[str]:
    total = progress.get("bytesTotal")
    if total is None:
        return []
    percent = int(progress.get("percent") or 0)
    filled = BAR_CELLS * percent // 100
    done = int(progress.get("bytesTransferred") or 0) + int(progress.get("bytesSkipped") or 0)
    parts = [f"[{'#' * filled}{'.' * (BAR_CELLS - filled)}] {percent:3d} %", f"{done / 1e6:,.0f} of {megabytes(int(total))}"]
    if "filesTotal" in progress:
        parts.append(f"{progress.get('filesTransferred') or 0:,} of {progress['filesTotal']:,} files")
    if "eta" in progress:
        parts.append(f"ETA {progress['eta']}")
    return parts


def _path_and_decision(status: Object) -> list[str]:
    parts = []
    if "rtt" in status.get("path", {}):
        parts.append(f"RTT {status['path']['rtt']}")
    decision = status.get("decision")
    if decision:
        why = f" (abstained: {decision['reason']})" if decision.get("abstained") else f" ({decision['reason']})"
        parts.append(f"{decision['congestionControl']} x {decision['streams']}{why}")
    return parts


def _reason(status: Object) -> list[str]:
    waiting = [c for c in status.get("conditions", []) if c["type"] in ("Accepted", "Scheduled", "MoversReady") and c["status"] != "True"]
    return [f"{waiting[0]['reason']}: {waiting[0]['message']}"] if waiting else []


class Display:
    """Shows two lines that change: in place on a terminal, else as one line after the other."""

    def __init__(self, stream: TextIO = sys.stdout) -> None:
        self._stream = stream
        self._live = stream.isatty()
        self._drawn = False

    def show(self, lines: tuple[str, str], elapsed_s: float) -> None:
        """Replaces what was shown before; elsewhere than on a terminal, prints."""
        first, second = f"{elapsed_s:5.0f} s  {lines[0].rstrip()}", lines[1]
        if self._live:
            width = max(20, shutil.get_terminal_size().columns - 1)
            above = UP_TWO_LINES if self._drawn else ""
            indented = f"{' ' * 9}{second}"
            self._stream.write(f"{above}{CLEAR}{first[:width]}\n{CLEAR}{indented[:width]}\n")
            self._drawn = True
        else:
            self._stream.write(f"{first}  {second}".rstrip() + "\n")
        self._stream.flush()
