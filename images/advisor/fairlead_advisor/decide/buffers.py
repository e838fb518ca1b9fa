"""How much a stream's send buffer must hold, and who settles that: the kernel wherever its own growth reaches far enough.

Asking for a size (SO_SNDBUF) ends that growth for good, and most hosts grant less by asking than the kernel takes by itself. The receiver's
buffer is its own kernel's business: asking there would end the growth of the window.
"""

import math
from dataclasses import dataclass

from fairlead_advisor.decide.model import BufferLimits, History, PathMeasurement, TransportLimits

# 2 x BDP: the window of a loss-based stream grows to about path and queue together.
_BUFFER_BDPS = 2
SMALLEST_BYTES = 256 * 1024
LARGEST_BYTES = 256 * 1024 * 1024
# The kernel keeps twice what it is asked for: a packet takes more than its payload.
_ACCOUNTED = 2


@dataclass(frozen=True, slots=True)
class BufferChoice:
    """`in_force_bytes` is what each stream is to have, None what the kernel makes of it; `message` is for people, empty if all is usual.

    `needed_bytes` is None while the rate is not known. `short`: the host grants less than is needed.
    """

    in_force_bytes: int | None = None
    needed_bytes: int | None = None
    message: str = ""
    short: bool = False


def needed_bytes(bandwidth_bps: float, rtt_s: float, streams: int) -> int:
    """The send buffer of one of `streams` that share `bandwidth_bps`: what is in flight, and as much again to send through a loss."""
    needed = math.ceil(_BUFFER_BDPS * bandwidth_bps / 8 * rtt_s / streams)
    return max(SMALLEST_BYTES, min(LARGEST_BYTES, needed))


def needed_before_data(path: PathMeasurement, limits: TransportLimits, history: History, streams: int) -> int | None:
    """The same from what is known before the data: the cap, or what the path carried earlier; None when neither is."""
    known = [bps for bps in (limits.cap_bps, history.capacity_bps) if bps is not None]
    return needed_bytes(min(known), path.rtt_s, streams) if known and path.rtt_s is not None else None


def choose(needed: int | None, host: BufferLimits | None) -> BufferChoice:
    """What to do about a stream that needs so many bytes. A size that is set is never lowered, and a user's is kept."""
    if host is None:
        return BufferChoice(needed_bytes=needed)
    stands = BufferChoice(host.set_bytes, needed)
    if needed is None or needed <= _held(host):
        return stands
    short = f"a stream needs {mebibytes(needed)} of send buffer here and gets {mebibytes(_held(host))}"
    if host.set_by_user:
        return BufferChoice(host.set_bytes, needed, f"{short}, as its size was set by hand", short=True)
    wanted = min(needed, host.settable_bytes)
    if _ACCOUNTED * wanted > _held(host):
        message = f"{mebibytes(wanted)} of send buffer a stream, as the kernel stops at {mebibytes(host.automatic_bytes)} by itself"
        return BufferChoice(wanted, needed, message)
    remedy = "raise net.ipv4.tcp_wmem and net.core.wmem_max on the sending node, or allow more streams"
    return BufferChoice(host.set_bytes, needed, f"{short}: {remedy}", short=True)


def as_it_stands(choice: BufferChoice, host: BufferLimits | None) -> BufferChoice:
    """`choice` where nothing is asked for: with the size that is set, and without a word of one that would be."""
    set_bytes = None if host is None else host.set_bytes
    return choice if choice.in_force_bytes == set_bytes else BufferChoice(set_bytes, choice.needed_bytes)


def _held(host: BufferLimits) -> int:
    """What a stream's buffer holds at most now, in the kernel's accounting."""
    return host.automatic_bytes if host.set_bytes is None else _ACCOUNTED * host.set_bytes


def mebibytes(count: float) -> str:
    """A size for people."""
    return f"{count / 2**20:.1f} MiB"
