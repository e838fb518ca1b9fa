"""A path whose queue is the kernel's: `fairlead-wan` for the delay, the counters of both routers for everything else."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlead_dev.netlab.counters import NamespaceCounters, QueueCounters
from fairlead_dev.testbed.lab.emulator import Emulator
from fairlead_dev.testbed.lab.namespaces import DEVICE, Names
from fairlead_dev.testbed.lab.routers import LOST, TABLE, TO_HOST, TO_ROUTER
from fairlead_dev.testbed.scenario.model import Path as NetworkPath

_LONGEST_LOOK_S = 0.002


@dataclass(slots=True)
class BusyRate:
    """What a queue has sent while it was never empty, from looks at its counters."""

    rate_bps: float
    busy_s: float = 0.0
    _sent_bytes: int = 0
    _before: tuple[float, QueueCounters] | None = None

    def look(self, asked_s: float, answered_s: float, queue: QueueCounters) -> None:
        """Counts the time since the last look if what waited then takes the link longer than that.

        A look of which the moment is not known, since this process was kept from running in its midst, ends and begins nothing.
        """
        if answered_s - asked_s > _LONGEST_LOOK_S:
            self._before = None
            return
        now_s = (asked_s + answered_s) / 2
        if self._before is not None:
            then_s, then = self._before
            if then.waiting_bytes * 8 >= self.rate_bps * (now_s - then_s):
                self.busy_s += now_s - then_s
                self._sent_bytes += queue.sent_bytes - then.sent_bytes
        self._before = now_s, queue

    @property
    def sent_bps(self) -> float | None:
        """The rate that was seen; None where the queue was never long enough to tell."""
        return 8 * self._sent_bytes / self.busy_s if self.busy_s else None


def direction(delay: Mapping[str, Any], queue: QueueCounters, lost: int, outside: int, busy: BusyRate) -> dict[str, Any]:
    """One direction's counters in the form that `fairlead-wan` gives of a path that is its own.

    `delay` are its counters of the delay alone, `outside` the packets that the kernel dropped between host and router. The highest queue
    is not known: `tc` counts none.
    """
    return {
        "packets_in": queue.offered_packets,
        "packets_out": delay["packets_out"] - lost,
        "packets_in_flight": queue.waiting_packets + delay["packets_in_flight"],
        "packets_dropped_buffer": queue.dropped_packets,
        "packets_dropped_loss": lost,
        "packets_dropped_memory": delay["packets_dropped_memory"],
        "packets_dropped_device": delay["packets_dropped_device"],
        "packets_overrun": None if delay["packets_overrun"] is None else delay["packets_overrun"] + outside,
        "queue_bytes": queue.waiting_bytes,
        "queue_bytes_peak": None,
        "busy_s": round(busy.busy_s, 3),
        "busy_rate_bps": None if busy.sent_bps is None else round(busy.sent_bps),
        "write_lateness_us": delay["write_lateness_us"],
        "delay": dict(delay),
    }


class KernelQueue:
    """A running path, with the questions of an `Emulator`."""

    def __init__(self, names: Names, path: NetworkPath, delay: Emulator) -> None:
        self._names = names
        self._path = path
        self._delay = delay
        self._open = ExitStack()
        self._counters: dict[str, NamespaceCounters] = {}
        self._busy = {way: BusyRate(path.rate_bps) for way in ("ab", "ba")}

    async def start(self, log: Path) -> None:
        """Return when packets flow. Raises LabError."""
        for name in (self._names.a, self._names.b, self._names.router_a, self._names.router_b):
            self._counters[name] = self._open.enter_context(closing(NamespaceCounters(name)))
        await self._delay.start(log)

    async def stats(self) -> dict[str, Any]:
        """The counters of both directions now. Raises LabError."""
        delay, names = await self._delay.stats(), self._names
        return {
            "ab": self._direction("ab", delay["ab"], names.a, names.router_a, names.router_b),
            "ba": self._direction("ba", delay["ba"], names.b, names.router_b, names.router_a),
        }

    async def measure_lateness(self) -> None:
        """As of an `Emulator`."""
        await self._delay.measure_lateness()

    async def end(self) -> None:
        """End it; does nothing if it never ran or has ended."""
        self._open.close()
        await self._delay.end()

    def _direction(self, way: str, delay: Mapping[str, Any], host: str, sending: str, receiving: str) -> dict[str, Any]:
        asked_s = time.monotonic()
        queue = self._counters[sending].queue(DEVICE)
        self._busy[way].look(asked_s, time.monotonic(), queue)
        lost = self._counters[receiving].counted(TABLE, LOST) if self._path.loss_ratio else 0
        outside = self._counters[host].dropped_sending(TO_ROUTER) + self._counters[receiving].dropped_sending(TO_HOST)
        return direction(delay, queue, lost, outside, self._busy[way])


EmulatedPath = Emulator | KernelQueue


def emulated(program: Path, names: Names, path: NetworkPath, *, seed: int, socket: Path, priority: int | None) -> EmulatedPath:
    """The path's emulator, not started yet."""
    emulator = Emulator(program, names, path, seed=seed, socket=socket, priority=priority)
    return KernelQueue(names, path, emulator) if path.emulator == "kernel" else emulator
