"""The command `fairlead-advisor`."""

import argparse
import asyncio
import json
import logging
import math
import os
import re
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from fairlead_advisor.commands import background, training
from fairlead_advisor.errors import AdvisorError, ProbeError, UsageError

if TYPE_CHECKING:
    from fairlead_advisor.steer.known import KnownPath

# A socket's congestion control has at most 15 characters (TCP_CA_NAME_MAX).
_CONGESTION_CONTROL = re.compile(r"[a-z0-9_+-]{1,15}")
_MAXIMUM_STREAMS = 256
_SUFFIXES = ("", "k", "M", "G", "T")
_RATE = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)([kMGT]?)", re.ASCII)

_log = logging.getLogger(__name__)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit code: 0, 1 (a retry may help), 2 (usage or a bad file), 3 (no model)."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.command(options) or 0)
    except AdvisorError as error:
        sys.stderr.write(f"fairlead-advisor: {error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("fairlead-advisor: interrupted\n")
        return 128 + signal.SIGINT


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="fairlead-advisor", description="Measures a path and chooses the transport that suits it.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    probing = commands.add_parser("probe", help="sample a path's round-trip time into a trace file", allow_abbrev=False)
    probing.add_argument("--peer", required=True, type=_host_and_port, metavar="HOST:PORT", help="the echo service")
    probing.add_argument("--echo-key", required=True, metavar="HEX", help="the job's echo key, 32 hexadecimal digits")
    probing.add_argument("--interface", metavar="NAME", help="send through this interface only")
    probing.add_argument("--output", required=True, type=Path, metavar="TRACE.csv", help="the trace file to write")
    _add_timetable(probing)
    probing.set_defaults(command=_probe)

    background.add_commands(commands)
    training.add_commands(commands)

    running = commands.add_parser("run", help="the sidecar of a sending mover", allow_abbrev=False)
    running.add_argument("--control-socket", required=True, type=Path, metavar="FILE", help="the mover's Unix socket")
    running.add_argument("--http", required=True, type=_listener, metavar="ADDRESS:PORT", help="where to serve")
    running.add_argument("--trace", required=True, type=Path, metavar="FILE", help="the trace file to write")
    running.add_argument(
        "--record", type=Path, metavar="FILE", help="where decisions and their outcomes are appended (decisions.jsonl beside the trace)"
    )
    running.add_argument("--termination-log", type=Path, metavar="FILE", help="where the decision is left when the sidecar ends")
    running.add_argument("--streams-min", type=int, default=1, metavar="N", help="fewest streams (1)")
    running.add_argument("--streams-max", type=int, default=32, metavar="N", help="most streams (32)")
    running.add_argument("--congestion-control", default="Auto", metavar="Auto|NAME", help="the user's choice (Auto)")
    running.add_argument("--path-capacity", type=_rate_bps, metavar="RATE", help="what the path is known to carry, such as 2G")
    running.add_argument(
        "--stream-coefficient", type=_positive, metavar="A", help="streams per bit of rate x RTT, as an earlier record's end has it"
    )
    running.add_argument(
        "--others-weight", type=_weight, default=1.0, metavar="W", help="what others' loss counts against an own one, 0 to 1 (1)"
    )
    running.add_argument(
        "--shares", type=int, default=1, metavar="N", help="how many flows' part of a full path is the job's where others are (1)"
    )
    running.add_argument(
        "--allocated", action="store_true", help="the mover's cap is the job's share by a policy: not to be left to others beside it"
    )
    running.add_argument("--seconds", type=float, default=10.0, metavar="SECONDS", help="longest probe before the data (10)")
    running.add_argument("--rate", type=float, metavar="HZ", help="requests a second of that probe, 10 to 200 (30 with a model, else 20)")
    running.add_argument(
        "--model", metavar="FILE|none", help="an ONNX file with its .sha256 beside it, or none (default: the newest installed)"
    )
    running.add_argument(
        "--known-path", metavar="JSON", help="what an earlier transfer measured on the path a moment ago, in place of the whole probe"
    )
    running.add_argument("--event-log", type=Path, metavar="FILE.gz", help="log every answer that the sidecar gets, for `replay` (none)")
    running.set_defaults(command=_run)

    explaining = commands.add_parser("explain", help="tell a recorded decision and what came of it", allow_abbrev=False)
    explaining.add_argument("record", type=Path, metavar="RECORD", help="a record, or a saved /v1/decision")
    explaining.add_argument("--number", type=int, metavar="N", help="which decision (the last)")
    explaining.set_defaults(command=_explain)

    replaying = commands.add_parser(
        "replay", help="print the decisions that this version takes from a recorded transfer", allow_abbrev=False
    )
    replaying.add_argument("record", type=Path, metavar="RECORD", help="an event log, as `run --event-log` writes it")
    replaying.add_argument("--json", action="store_true", help="everything that is asked, published and recorded, as JSON")
    replaying.set_defaults(command=_replay)
    return parser


def _add_timetable(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rate", type=float, default=30.0, metavar="HZ", help="requests a second, 10 to 200 (30)")
    parser.add_argument("--seconds", type=float, default=10.0, metavar="SECONDS", help="how long to send requests (10)")


def _host_and_port(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise argparse.ArgumentTypeError(f"{text!r}: write an IPv6 address in brackets, like [::1]:24000")
    if not colon or not host or not (port.isascii() and port.isdigit()) or not 1 <= int(port[:6]) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT with a port of 1 to 65535")
    return host, int(port)


def _listener(text: str) -> tuple[str, int]:
    """The kubelet fills in a node's address of IPv6 as it is, without the brackets that a person writes."""
    address, colon, port = text.rpartition(":")
    bare = ":" in address and not address.startswith("[")
    return _host_and_port(f"[{address}]{colon}{port}" if bare else text)


def _rate_bps(text: str) -> float:
    found = _RATE.fullmatch(text)
    if found is None or not float(found[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is no rate: write decimal bits per second such as 500M or 2G")
    return float(found[1]) * 1000.0 ** _SUFFIXES.index(found[2] or "")


def _number(text: str) -> float:
    """NaN for what is none, which lies within no bounds."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def _positive(text: str) -> float:
    value = _number(text)
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


def _weight(text: str) -> float:
    value = _number(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 1")
    return value


def _probe(options: argparse.Namespace) -> int:
    from fairlead_advisor.files import ensure_writable  # noqa: PLC0415 - each command loads only what it uses
    from fairlead_advisor.probe.schedule import Timetable  # noqa: PLC0415
    from fairlead_advisor.probe.socket import Clocks, EchoEndpoint, probe  # noqa: PLC0415
    from fairlead_advisor.probe.summary import summarize  # noqa: PLC0415
    from fairlead_advisor.probe.trace import write_trace  # noqa: PLC0415
    from fairlead_advisor.probe.wire import parse_key  # noqa: PLC0415

    key = parse_key(options.echo_key)
    timetable = Timetable(options.rate, options.seconds)
    ensure_writable(options.output)
    host, port = options.peer
    endpoint = EchoEndpoint(host, port, interface=options.interface)
    result = asyncio.run(probe(endpoint, key, timetable, Clocks()))
    write_trace(options.output, result.trace)
    summary = summarize(result.trace)
    report = {"version": 1, "peer": str(endpoint), "trace": str(options.output)} | asdict(summary) | asdict(result.counters)
    sys.stdout.write(json.dumps(report) + "\n")
    if not summary.answered:
        raise ProbeError(_unanswered(str(endpoint), summary.samples, result.counters.foreign, result.counters.refused))
    return 0


def _unanswered(peer: str, samples: int, foreign: int, refused: int) -> str:
    if foreign:
        return f"{peer} answered none of {samples} requests under this key, but {foreign} datagrams came with another: check --echo-key"
    if refused:
        return f"{peer} answered none of {samples} requests, its host says that nothing listens there: check the port and the receiver"
    if not samples:
        return f"no request to {peer} could be sent: check this host's interface, routes and firewall"
    return (
        f"{peer} answered none of {samples} requests: check that the receiver runs and its sender is connected (the echo answers "
        "only then, and only to the sender's address), the UDP port in firewalls on the way, and --echo-key"
    )


def _explain(options: argparse.Namespace) -> None:
    from fairlead_advisor.record.explain import explain  # noqa: PLC0415
    from fairlead_advisor.record.journal import read_record  # noqa: PLC0415

    sys.stdout.write(explain(read_record(options.record), options.number))


def _replay(options: argparse.Namespace) -> None:
    from fairlead_advisor.replay.run import replay, replayed_json, replayed_text  # noqa: PLC0415
    from fairlead_advisor.replay.world import read_events  # noqa: PLC0415

    replayed = asyncio.run(replay(read_events(options.record)))
    sys.stdout.write(json.dumps(replayed_json(replayed), indent=1) + "\n" if options.json else replayed_text(replayed))


def _known_path(text: str) -> "KnownPath | None":
    """None where it says nothing of use: it only saves a probe, and a sidecar that ends for it keeps the pod from ever being ready."""
    from fairlead_advisor.steer.known import parse_known_path  # noqa: PLC0415

    try:
        return parse_known_path(text)
    except UsageError as error:
        _log.warning("%s; it is left aside, and the path is probed", error)
        return None


def _run(options: argparse.Namespace) -> None:
    # As the first process of a container, SIGTERM would be ignored until the event loop handles it.
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(0))
    from fairlead_advisor.decide.model import History, TransportLimits  # noqa: PLC0415
    from fairlead_advisor.probe.schedule import MINIMUM_RATE_HZ, Timetable  # noqa: PLC0415
    from fairlead_advisor.serve.run import SidecarSettings, run_sidecar  # noqa: PLC0415
    from fairlead_advisor.steer.mover import MAXIMUM_SOCKET_PATH_BYTES  # noqa: PLC0415

    if not 1 <= options.streams_min <= options.streams_max <= _MAXIMUM_STREAMS:
        raise UsageError(
            f"--streams-min {options.streams_min} and --streams-max {options.streams_max}: "
            f"they must be 1 to {_MAXIMUM_STREAMS}, the minimum not above the maximum"
        )
    if not 1 <= options.shares <= _MAXIMUM_STREAMS:
        raise UsageError(f"--shares {options.shares}: must be 1 to {_MAXIMUM_STREAMS}")
    if len(os.fsencode(options.control_socket)) > MAXIMUM_SOCKET_PATH_BYTES:
        raise UsageError(f"--control-socket {options.control_socket}: a Unix socket's path has at most {MAXIMUM_SOCKET_PATH_BYTES} bytes")
    chosen = options.congestion_control.lower()
    if not _CONGESTION_CONTROL.fullmatch(chosen):
        raise UsageError(f"--congestion-control {options.congestion_control!r}: must be Auto or a name such as cubic")
    limits = TransportLimits(
        options.streams_min,
        options.streams_max,
        congestion_control=None if chosen == "auto" else chosen,
        allocated=options.allocated,
        others_weight=options.others_weight,
        shares=options.shares,
    )
    address, port = options.http
    # Bounds are checked before anything starts.
    Timetable(MINIMUM_RATE_HZ if options.rate is None else options.rate, options.seconds)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    record = options.record or options.trace.with_name("decisions.jsonl")
    history = History(capacity_bps=options.path_capacity, stream_coefficient=options.stream_coefficient)
    settings = SidecarSettings(
        control_socket=options.control_socket,
        http_address=address,
        http_port=port,
        trace_path=options.trace,
        record_path=record,
        probe_seconds=options.seconds,
        limits=limits,
        history=history,
        model=None if options.model is None else Path(options.model),
        rate_hz=options.rate,
        known=None if options.known_path is None else _known_path(options.known_path),
        termination_log=options.termination_log,
        event_log=options.event_log,
    )
    asyncio.run(run_sidecar(settings))
