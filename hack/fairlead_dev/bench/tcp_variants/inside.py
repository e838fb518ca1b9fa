"""Runs in the guest as its only program: prints a line of JSON for each check. Needs the standard library alone, and root."""

from __future__ import annotations

import contextlib
import filecmp
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from fairlead_dev.bench.tcp_variants import plan
from fairlead_dev.clients.http import ask_mover
from fairlead_dev.errors import DevError, LabError, NoAnswerError
from fairlead_dev.guest.machine import ACCOUNT, ACCOUNT_ID
from fairlead_dev.netlab.processes import Process, run, running, wait_until

MOVER = "/bin/fairlead-mover"
WORK = Path("/run/variants")
SOURCE, TLS = WORK / "source", WORK / "tls"
FILE, FILE_BYTES = "data", 16 << 20
LONG, LONG_BYTES = "zero:128M", 128_000_000
STREAMS = 4
CAP = "4M"
"""Of a transfer that is looked at: it is lifted afterwards."""
DEFAULT = "cubic"
"""The kernel's."""
NEEDS_BOTH_ENDS = "dctcp"
"""Its connections ask for explicit congestion notification in a way that only a socket with the same control agrees to."""
LIMIT_S = 180.0
ONE_STREAM = ("--streams", "1", "--streams-min", "1", "--streams-max", "1")
RELAY_PORT = 23999
REFUSED_EXIT_CODE = 3
UNAVAILABLE = "CongestionControlUnavailable"
TCP_SYSCTLS = Path("/proc/sys/net/ipv4")
MODULES = Path("/sys/module")
Seen = Mapping[str, Any]


class Transfer:
    """A receiver that listens, and a sender once it is asked for. Both are run by a user without any right."""

    def __init__(self, folder: Path, receiver: Process) -> None:
        self.folder, self.receiver = folder, receiver
        self._sender: Process | None = None
        self._control = folder / "control.sock"

    def port(self) -> int:
        """The receiver's, once it listens."""
        wait_until(lambda: bool(self.events("listening")) or not self.receiver.is_running, "the receiver", LIMIT_S)
        listening = self.events("listening")
        if not listening:
            raise LabError(f"the receiver ended{self.receiver.log_tail()}")
        return int(listening[0]["port"])

    def send(self, source: str | Path, control: str, *options: str, port: int | None = None) -> Process:
        """Starts the sender to the receiver, or to a port that leads there, held to a cap until that is lifted."""
        (self.folder / "cap").write_text(CAP)
        peer = f"127.0.0.1:{port or self.port()}"
        command: list[str | Path] = [MOVER, "send", "--source", source, "--connect", peer, "--congestion-control", control]
        command += ["--control-socket", self._control, "--bandwidth-file", self.folder / "cap", *options]
        self._sender = _mover(self.folder, "sender", command)
        return self._sender

    def streams(self) -> list[dict[str, Any]]:
        """The mover's statistics of its streams; none before it answers. Raises LabError once the sender has ended."""
        if self._sender is None or not self._sender.is_running:
            raise LabError(f"the sender ended: {self.verdict('sender').get('message')}")
        try:
            return [dict(stream) for stream in ask_mover(self._control, "GET", "/v1/stats")["streams"]]
        except NoAnswerError:
            return []

    def controls(self) -> set[str]:
        """What the streams have, read back from their sockets."""
        return {stream["congestion_control"] for stream in self.streams()}

    def ask(self, **change: object) -> dict[str, Any]:
        """Changes the transport of the running transfer; LabError with the mover's words where it refuses."""
        return dict(ask_mover(self._control, "PATCH", "/v1/transport", change))

    def await_data(self, count: int) -> dict[int, int]:
        """Waits until so many streams carry more than they do now; their bytes by their numbers."""
        before = {stream["id"]: stream["bytes_sent"] for stream in self.streams()}

        def flows() -> bool:
            streams = self.streams()
            return len(streams) == count and all(stream["bytes_sent"] > before.get(stream["id"], 0) for stream in streams)

        wait_until(flows, f"data on {count} streams", LIMIT_S)
        return {stream["id"]: stream["bytes_sent"] for stream in self.streams()}

    def end_well(self, size_bytes: int) -> None:
        """Lifts the cap and waits for both ends. Raises LabError unless both say that every byte was verified."""
        (self.folder / "cap").write_text("")
        assert self._sender is not None
        ended = [self._sender.wait(LIMIT_S), self.receiver.wait(LIMIT_S)]
        verdicts = [self.verdict(role) for role in ("sender", "receiver")]
        if any(usage.exit_code for usage in ended) or any(verdict.get("reason") != "Verified" for verdict in verdicts):
            raise LabError(f"not verified: {[verdict.get('message') for verdict in verdicts]}")
        if any(verdict["bytes_transferred"] != size_bytes for verdict in verdicts):
            raise LabError(f"{[verdict['bytes_transferred'] for verdict in verdicts]} bytes were moved, not {size_bytes}")

    def events(self, kind: str) -> list[dict[str, Any]]:
        """What the receiver has printed of a kind."""
        found = []
        for line in (self.folder / "receiver.events").read_text().splitlines():
            with contextlib.suppress(ValueError):
                event = json.loads(line)
                found += [dict(event["data"])] if event["event"] == kind else []
        return found

    def verdict(self, role: str) -> dict[str, Any]:
        """What an end wrote when it ended; empty without one."""
        try:
            return dict(json.loads((self.folder / f"{role}.verdict").read_text()))
        except (OSError, ValueError):
            return {}

    def stop(self) -> None:
        """Ends the sender."""
        if self._sender is not None:
            self._sender.stop()


def _mover(folder: Path, role: str, command: list[str | Path]) -> Process:
    files: list[str | Path] = ["--tls-dir", TLS / role, "--termination-log", folder / f"{role}.verdict", "--json"]
    (folder / f"{role}.verdict").unlink(missing_ok=True)
    return Process([*command, *files], log=folder / f"{role}.log", output=folder / f"{role}.events", user=ACCOUNT)


@contextlib.contextmanager
def transfer(destination: str = "null", *receiver_options: str) -> Iterator[Transfer]:
    """A receiver into a folder below the transfer's own, or into nothing, ended with the block; so is the sender."""
    folder = WORK / "transfer"
    shutil.rmtree(folder, ignore_errors=True)
    _own(folder)
    place = destination if destination == "null" else folder / destination
    command: list[str | Path] = [MOVER, "receive", "--destination", place, "--port", "0", "--address", "127.0.0.1", *receiver_options]
    with running(_mover(folder, "receiver", command)) as receiver:
        one = Transfer(folder, receiver)
        try:
            yield one
        finally:
            one.stop()


def _own(folder: Path) -> None:
    folder.mkdir(parents=True)
    os.chown(folder, ACCOUNT_ID, ACCOUNT_ID)


def allow(controls: Iterable[str]) -> None:
    """Sets what everybody may use."""
    (TCP_SYSCTLS / "tcp_allowed_congestion_control").write_text(" ".join(controls))


@contextlib.contextmanager
def default(control: str) -> Iterator[None]:
    """What sockets begin with, those that listen included, as long as the block lasts."""
    place = TCP_SYSCTLS / "tcp_congestion_control"
    place.write_text(control)
    try:
        yield
    finally:
        place.write_text(DEFAULT)


def uses(control: str) -> int | None:
    """How often the kernel counts its module as used; None of a control that is built in."""
    count = MODULES / f"tcp_{control}" / "refcnt"
    return int(count.read_text()) if count.exists() else None


class Checks:
    """All checks of a plan. Each raises DevError where it does not pass, and returns what it saw."""

    def __init__(self, guest: plan.GuestPlan) -> None:
        self._controls = tuple(guest.controls)
        self._unused = {control: uses(control) for control in self._controls}

    def run(self) -> Iterator[dict[str, Any]]:
        """Every check's report."""
        allow(self._controls)
        for control in self._controls:
            yield report(plan.carries(control), partial(self.carries, control))
        yield from self.switches()
        yield report(plan.SCAVENGER, self.scavenger)
        yield report(plan.WITHOUT_UDP, self.without_udp)
        yield report(plan.DCTCP_ALONE, self.dctcp_alone)
        with transfer("null", "--peer-timeout", "3600") as receiver:
            for control in self._controls:
                yield report(plan.refused(control), partial(self.refused, control, receiver))

    def carries(self, control: str) -> Seen:
        """A directory from the first connection on; every stream has the control by the mover and by the kernel's count."""
        with default(control if control == NEEDS_BOTH_ENDS else DEFAULT), transfer("destination") as one:
            one.send(SOURCE, control, "--streams", str(STREAMS))
            one.await_data(STREAMS)
            seen = self._seen(one, control)
            one.end_well(FILE_BYTES)
            if not filecmp.cmp(SOURCE / FILE, one.folder / "destination" / FILE, shallow=False):
                raise LabError("the file that arrived is another one")
        return seen

    def switches(self) -> Iterator[dict[str, Any]]:
        """One transfer that is switched to every control in turn while it runs, refused one that is not allowed, and verified."""
        # So that a connection that began with another control can go on with one that needs explicit congestion notification.
        (TCP_SYSCTLS / "tcp_ecn").write_text("1")
        with transfer() as one:
            one.send(LONG, self._controls[-1], "--streams", str(STREAMS))
            for control in self._controls:
                yield report(plan.switched(control), partial(self.switched, control, one))
            yield report(plan.SWITCH_REFUSED, partial(self.switch_refused, one))
        (TCP_SYSCTLS / "tcp_ecn").write_text("2")

    def switched(self, control: str, one: Transfer) -> Seen:
        """The same streams go on with it."""
        streams = one.await_data(STREAMS).keys()
        before = sorted(one.controls())
        one.ask(congestion_control=control)
        seen = self._seen(one, control)
        if one.await_data(STREAMS).keys() != streams:
            raise LabError("other streams than before carry data")
        return {**seen, "before": before}

    def switch_refused(self, one: Transfer) -> Seen:
        """What is not allowed is refused while the transfer runs, which goes on as it was and ends well."""
        control, in_force = self._controls[0], one.controls()
        with self._allowing_others(control):
            said = refusal(partial(one.ask, congestion_control=control))
        if UNAVAILABLE not in said:
            raise LabError(f"the refusal has no {UNAVAILABLE}: {said}")
        one.await_data(STREAMS)
        if one.controls() != in_force:
            raise LabError(f"the streams have {sorted(one.controls())} after the refusal, and had {sorted(in_force)}")
        one.end_well(LONG_BYTES)
        return {"control": control, "said": said}

    def scavenger(self) -> Seen:
        """What the operator asks of a mover for a scavenger over TCP: one stream with the kernel's lp, and no other control."""
        with transfer("destination") as one:
            one.send(SOURCE, "lp", *ONE_STREAM, "--congestion-controls", "lp")
            one.await_data(1)
            seen = self._seen(one, "lp")
            said = refusal(partial(one.ask, congestion_control="cubic"))
            if "NotAllowed" not in said:
                raise LabError(f"the refusal has no NotAllowed: {said}")
            one.end_well(FILE_BYTES)
        return seen

    def without_udp(self) -> Seen:
        """A scavenger over QUIC goes on with lp where its datagrams do not get through, here behind a relay of TCP alone."""
        with transfer("destination", "--protocol", "QUIC") as one:
            command = ["/bin/busybox", "nc", "-ll", "-p", str(RELAY_PORT), "-e", "/bin/busybox", "nc", "127.0.0.1", str(one.port())]
            with running(Process(command, log=one.folder / "relay.log", user=ACCOUNT)):
                one.send(SOURCE, "ledbat++", "--protocol", "QUIC", *ONE_STREAM, port=RELAY_PORT)
                one.await_data(1)
                seen = self._seen(one, "lp")
                one.end_well(FILE_BYTES)
        if (protocol := one.verdict("sender")["protocol"]) != "TCP":
            raise LabError(f"the verdict says {protocol}")
        return {**seen, "protocol": protocol}

    def dctcp_alone(self) -> Seen:
        """A receiver whose kernel has another default does not agree to dctcp: the kernel takes reno, and the mover says so."""
        with transfer("destination") as one:
            one.send(SOURCE, NEEDS_BOTH_ENDS, "--streams", str(STREAMS))
            one.await_data(STREAMS)
            found = one.controls()
            if found != {"dctcp-reno"}:
                raise LabError(f"the mover's statistics say {sorted(found)}")
            one.end_well(FILE_BYTES)
        return {"read_back": sorted(found)}

    def refused(self, control: str, receiver: Transfer) -> Seen:
        """The sender ends with the mover's named refusal, and the receiver has seen nobody."""
        with self._allowing_others(control):
            exit_code = receiver.send(SOURCE, control).wait(LIMIT_S).exit_code
        verdict = receiver.verdict("sender")
        message = str(verdict.get("message"))
        if (exit_code, verdict.get("reason")) != (REFUSED_EXIT_CODE, UNAVAILABLE) or "tcp_allowed_congestion_control" not in message:
            raise LabError(f"the sender ended with {exit_code}, {verdict.get('reason')}: {message}")
        if verdict["bytes_transferred"] or receiver.events("connected") or not receiver.receiver.is_running:
            raise LabError("the receiver was connected to")
        return {"reason": verdict["reason"]}

    def _seen(self, one: Transfer, control: str) -> Seen:
        streams = one.streams()
        found = [stream["congestion_control"] for stream in streams]
        if set(found) != {control}:
            raise LabError(f"the mover's statistics say {found}")
        seen, counted = {"streams": len(streams)}, uses(control)
        if counted is None:
            return seen
        sockets = counted - (self._unused[control] or 0)
        if sockets < len(streams):
            raise LabError(f"the kernel counts {sockets} sockets of {control} for {len(streams)} streams")
        return {**seen, "sockets_by_kernel": sockets}

    @contextlib.contextmanager
    def _allowing_others(self, control: str) -> Iterator[None]:
        # A socket may always have the control that it begins with, which is the kernel's default.
        with default("reno" if control == DEFAULT else DEFAULT):
            allow(other for other in self._controls if other != control)
            try:
                yield
            finally:
                allow(self._controls)


def refusal(ask: Callable[[], object]) -> str:
    """The mover's words for what it does not do. Raises LabError if it does it."""
    try:
        ask()
    except NoAnswerError:
        raise
    except LabError as error:
        return str(error)
    raise LabError("the mover did what it was to refuse")


def report(name: str, check: Callable[[], Seen]) -> dict[str, Any]:
    """The check's outcome, as it is printed."""
    try:
        return {"check": name, "passed": True, "error": "", **check()}
    except DevError as error:
        return {"check": name, "passed": False, "error": str(error)}


def main() -> None:
    """Prepares the guest and runs every check."""
    guest = plan.GuestPlan.from_json(json.loads(Path("/", plan.PLAN_FILE).read_text()))
    _say({"kernel": f"{os.uname().release}, {os.uname().version}"})
    for module in guest.modules:
        (file,) = Path("/lib/modules").rglob(f"{module}.ko")
        run(["/bin/busybox", "insmod", file])
    _own(WORK)
    _own(SOURCE)
    (SOURCE / FILE).write_bytes(os.urandom(FILE_BYTES))
    Process([MOVER, "credentials", TLS], log=WORK / "credentials.log", user=ACCOUNT).succeed(LIMIT_S)
    for each in Checks(guest).run():
        _say(each)


def _say(words: Mapping[str, Any]) -> None:
    print(json.dumps(words), flush=True)


if __name__ == "__main__":
    main()
