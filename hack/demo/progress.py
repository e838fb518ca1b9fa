"""A running job for the eyes: one line from its status and from the link, redrawn on a terminal, printed anew elsewhere."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from typing import TextIO

from access.kubectl import Object

BAR_CELLS = 20


@dataclass(frozen=True, slots=True)
class LinkSample:
    """What the link had carried towards the destination, in bytes, at a monotonic time in seconds."""

    at_s: float
    bytes_carried: int


def link_rate_mbps(before: LinkSample, now: LinkSample) -> float | None:
    """The mean rate between two samples in Mb/s; None where they do not tell one."""
    seconds = now.at_s - before.at_s
    if seconds <= 0 or now.bytes_carried < before.bytes_carried:
        return None
    return (now.bytes_carried - before.bytes_carried) * 8 / seconds / 1e6


def megabytes(size_bytes: int) -> str:
    """Decimal megabytes for people."""
    return f"{size_bytes / 1e6:,.0f} MB"


def summary(job: Object, link_mbps: float | None) -> str:
    """The job's state in one line."""
    status = job.get("status", {})
    phase = str(status.get("phase", "Pending"))
    parts = [f"{phase:<12}", *_progress(status.get("progress", {}))]
    if link_mbps is not None:
        parts.append(f"link {link_mbps:5.1f} Mb/s")
    parts += _path_and_decision(status)
    if int(status.get("attempts") or 1) > 1:
        parts.append(f"attempt {status['attempts']}")
    if phase == "Pending":
        parts += _reason(status)
    return "  ".join(parts)


def _progress(progress: Object) -> list[str]:
    total = progress.get("bytesTotal")
    if total is None:
        return []
    percent = int(progress.get("percent") or 0)
    filled = BAR_CELLS * percent // 100
    done = int(progress.get("bytesTransferred") or 0) + int(progress.get("bytesSkipped") or 0)
    parts = [f"[{'#' * filled}{'.' * (BAR_CELLS - filled)}] {percent:3d} %", f"{megabytes(done)} of {megabytes(int(total))}"]
    if "filesTotal" in progress:
        parts.append(f"{progress.get('filesTransferred') or 0:,} of {progress['filesTotal']:,} files")
    if "rate" in progress:
        parts.append(f"rate {progress['rate']}b/s")
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
    """Shows a line that changes: in place on a terminal, else as lines of their own."""

    def __init__(self, stream: TextIO = sys.stdout) -> None:
        self._stream = stream
        self._live = stream.isatty()
        self._last = ""

    def show(self, line: str, elapsed_s: float) -> None:
        """Replaces what was shown before; elsewhere than on a terminal, prints."""
        text = f"{elapsed_s:5.0f} s  {line}"
        if self._live:
            width = max(20, shutil.get_terminal_size().columns - 1)
            self._stream.write("\r\x1b[K" + text[:width])
        else:
            self._stream.write(text + "\n")
        self._last = text
        self._stream.flush()

    def close(self) -> None:
        """Leaves the last line on the screen."""
        if self._live and self._last:
            self._stream.write("\r\x1b[K" + self._last + "\n")
            self._stream.flush()
