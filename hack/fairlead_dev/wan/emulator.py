"""The wide-area emulator `fairlead-wan`: where it is, how it is started, what it is asked."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from fairlead_dev.checkout import BINARIES
from fairlead_dev.errors import CommandUsageError, LabError
from fairlead_dev.netlab import links
from fairlead_dev.netlab.pair import Net, ends, route, two_namespaces
from fairlead_dev.netlab.processes import Process, run, running, wait_until

PROGRAM_VARIABLE = "FAIRLEAD_WAN"
START_LIMIT_S = 120.0
QUEUES = ("drop-tail", "drop-tail-packets", "codel", "fq-codel")
"""The kinds of queue; options of a kind follow a colon, as in `codel:target=10ms`."""
MOST_THINNED = 1000


def find_program() -> Path:
    """The emulator: $FAIRLEAD_WAN, or the checkout's `build/bin`, or on the search path. Raises UsageError."""
    named = os.environ.get(PROGRAM_VARIABLE)
    built = BINARIES / "fairlead-wan"
    found = named or (str(built) if built.exists() else shutil.which("fairlead-wan"))
    if not found or not os.access(found, os.X_OK):
        raise CommandUsageError(f"{named or 'fairlead-wan'}: no such program: build it with `make rust`, or name it in ${PROGRAM_VARIABLE}")
    return Path(found).resolve()


def run_command(program: Path, ends: tuple[str, str], control: Path, path: Sequence[object], priority: int | None = None) -> list[str]:
    """The command line that joins two devices, each NAMESPACE:DEVICE; `path` has options of `fairlead-wan run`.

    With a real-time priority packets leave on time beside busy neighbours.
    """
    before = () if priority is None else ("chrt", "-f", priority)
    words = (*before, program, "run", "--a", ends[0], "--b", ends[1], *path, "--control", control)
    return [str(word) for word in words]


def treatment_options(
    queue: str = QUEUES[0], *, police: str | None = None, police_udp: str | None = None, thin_acks: int = 1
) -> tuple[str, ...]:
    """Options of `run` for a path that treats packets otherwise than by default. UsageError naming the field at fault.

    Data goes from A to B, and acknowledgements are thinned on their way back. Policers are `RATE[,BURST]`, for each way, as is the queue.
    """
    if queue.partition(":")[0] not in QUEUES:
        raise CommandUsageError(f"queue: {queue!r} is no kind of queue: give one of {', '.join(QUEUES)}")
    if not 1 <= thin_acks <= MOST_THINNED:
        raise CommandUsageError(f"thin_acks: of {thin_acks} acknowledgements none can be kept: give 1 (none is dropped) to {MOST_THINNED}")
    chosen = {
        "--queue": queue if queue != QUEUES[0] else None,
        "--police": police,
        "--police-udp": police_udp,
        "--thin-acks-ba": str(thin_acks) if thin_acks > 1 else None,
    }
    return tuple(word for option, value in chosen.items() if value is not None for word in (option, value))


@contextmanager
def emulating(command: Sequence[str], log: Path) -> Iterator[Process]:
    """A running emulator, once packets flow. Raises LabError with its output where it does not start."""
    log.unlink(missing_ok=True)
    with running(Process(command, log=log)) as process:
        wait_until(lambda: "ready" in log.read_text() or not process.is_running, "the emulated path", START_LIMIT_S)
        if not process.is_running:
            raise LabError(f"the emulator ended{process.log_tail()}")
        yield process


def change(program: Path, control: Path, *, direction: str | None = None, **changes: object) -> None:
    """Changes a running path, for example `rate="400M"` or `police_udp="5M"`; `direction` is `ab`, `ba` or both. Raises LabError."""
    which = () if direction is None else ("--direction", direction)
    options = [word for name, value in changes.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    run([program, "set", "--control", control, *which, *options])


def statistics(program: Path, control: Path) -> dict[str, Any]:
    """Counters and parameters of each direction. Raises LabError."""
    return dict(json.loads(run([program, "stats", "--control", control])))


@contextmanager
def emulated_pair(
    program: Path,
    scratch: Path,
    *,
    rate: str,
    one_way_delay: str,
    buffer: str = "1BDP",
    more: Sequence[object] = (),
    priority: int | None = None,
) -> Iterator[Net]:
    """Two namespaces with a path between them, quantities as the emulator writes them; `more` are options of its `run`. Raises LabError."""
    with two_namespaces() as net:
        for name, address, peer in ends(net):
            links.tun(name, net.device, address, peer)
        route(net)
        control = scratch / "emulator.sock"
        path = ("--rate", rate, "--delay", one_way_delay, "--buffer", buffer, *more)
        command = run_command(program, (f"{net.sender}:{net.device}", f"{net.receiver}:{net.device}"), control, path, priority)
        with emulating(command, scratch / "emulator.log"):
            for name, _, _ in ends(net):
                links.await_carrier(name, net.device)
            yield replace(net, control=control)
