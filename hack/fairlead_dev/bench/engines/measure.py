"""Transfers of the mover over emulated paths, alone and beside a flow of iperf3. Everything here has effects."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from fairlead.api.transferjob.status import ProtocolInForce
from fairlead.core.observed import Role
from fairlead.core.paths.evidence import engine_result
from fairlead.core.paths.model import EngineResult
from fairlead.core.reports import Verdict
from fairlead.kube.observe.pods import parse_verdict
from fairlead_dev.bench.engines.figures import EngineMove
from fairlead_dev.bench.engines.plan import Company, Effort, advised_options, default_options
from fairlead_dev.bench.lab.mover import MoverProgram, MoverTransfer
from fairlead_dev.bench.lab.servers import IPERF_PORT, await_listening
from fairlead_dev.clients.http import ask_mover
from fairlead_dev.errors import LabError
from fairlead_dev.netlab.pair import Net
from fairlead_dev.netlab.processes import Process, run, running, wait_until
from fairlead_dev.testbed.sealed.engine_paths import EnginePath
from fairlead_dev.wan.emulator import emulated_pair, statistics, treatment_options
from fairlead_dev.wan.two_hosts import ADVISOR_PORT

EMULATOR_PRIORITY = 10
LONG = "zero:20G"
"""More than any path carries while somebody looks."""
FLOW_PORT, COMPANY_PORT = IPERF_PORT, IPERF_PORT + 1
FIRST_DATA_S = 60.0
"""Beyond the time after which a transfer whose UDP gets no answer goes on over TCP."""
MOVE_LIMIT_S = 180.0
SILENCE_S = 15
"""By which a job's data begin later where nothing answers its probes, and with it what counts of the flow."""
HEAD_START_S = 5.0
"""Of the flow before its company begins: no path is taken for empty because the flow has only just begun."""
_BLOCK_UDP = "table inet fairlead {\n chain blocked { type filter hook prerouting priority raw; meta l4proto udp drop; }\n}\n"


@dataclass(frozen=True, slots=True)
class EnginesLab:
    """Programs, and a folder for everything that is written."""

    mover: MoverProgram
    emulator: Path
    scratch: Path


@contextmanager
def link(lab: EnginesLab, path: EnginePath) -> Iterator[Net]:
    """Two namespaces with the path between them. Random loss is that of the data's direction. Raises LabError."""
    more = (
        *("--loss-ab", path.loss_ratio),
        *treatment_options(path.queue, police_udp=path.police_udp.written if path.police_udp else None, thin_acks=path.thin_acks),
    )
    size = {"rate": str(path.rate_bps), "one_way_delay": f"{path.rtt_ms / 2:.6f}ms", "buffer": str(path.queue_bytes)}
    with emulated_pair(lab.emulator, lab.scratch, **size, more=more, priority=EMULATOR_PRIORITY) as net:
        if path.udp_blocked:
            for end in (net.sender, net.receiver):
                run(["nft", "-f", "-"], namespace=end, stdin=_BLOCK_UDP)
        yield net


def scout_bps(lab: EnginesLab, path: EnginePath, protocol: ProtocolInForce, seconds: float) -> float:
    """What a transfer gets in the second half of that time, as far as it is acknowledged. Raises LabError."""
    control = lab.scratch / "control.sock"
    control.unlink(missing_ok=True)
    with link(lab, path) as net, lab.mover.transfer(net, lab.scratch, "null", "--protocol", protocol) as transfer:
        transfer.send(LONG, *default_options(protocol, path.cap_bps), "--control-socket", str(control))
        wait_until(control.exists, "the control socket", 20)
        wait_until(lambda: _acked_bytes(control) > 0, "the first data", FIRST_DATA_S)
        time.sleep(seconds / 2)
        began_s, before = time.monotonic(), _acked_bytes(control)
        time.sleep(seconds / 2)
        rate_bps = max(0, _acked_bytes(control) - before) * 8 / (time.monotonic() - began_s)
        transfer.stop_sending()
    return rate_bps


def move(lab: EnginesLab, path: EnginePath, protocol: ProtocolInForce, size_bytes: int) -> tuple[EngineMove, float]:
    """Moves so many zeros into nothing as a default job starts; and the emulator's lateness (p99, us). Raises LabError."""
    with link(lab, path) as net, lab.mover.transfer(net, lab.scratch, "null", "--protocol", protocol) as transfer:
        transfer.send(f"zero:{size_bytes}", *default_options(protocol, path.cap_bps))
        done = transfer.finish(MOVE_LIMIT_S)
        late_us = _lateness_us(lab, net)
        said, arrived = (_verdict(transfer, role) for role in (Role.SENDER, Role.RECEIVER))
    return EngineMove(done.bulk_bps, kept_of(protocol, said, arrived, datetime.now(UTC), path.cap_bps)), late_us


def kept_of(protocol: ProtocolInForce, said: Verdict, arrived: Verdict, at: datetime, cap_bps: int | None) -> EngineResult | None:
    """What the operator would keep of a transfer: that UDP did not get through where another protocol carried it, else how it did."""
    if said.protocol != protocol:
        return EngineResult(at, protocol, None)
    return engine_result(protocol, said, arrived, at, cap_bps=cap_bps)


def flow_bps(lab: EnginesLab, path: EnginePath, company: Company, protocol: ProtocolInForce, effort: Effort) -> tuple[float, float]:
    """What a CUBIC flow of iperf3 gets in that company, and the emulator's lateness (p99, us). Raises LabError."""
    settle_s = effort.settle_s + (SILENCE_S if company == "auto" and path.udp_blocked else 0)
    output, lasts_s = lab.scratch / "flow.json", settle_s + effort.flow_s
    output.unlink(missing_ok=True)
    with link(lab, path) as net, ExitStack() as stack:
        _serve(lab, net, stack, FLOW_PORT)
        counted = ("-J", "-O", str(settle_s), "-t", str(effort.flow_s))
        flow = Process(_iperf(net, FLOW_PORT, *counted), log=lab.scratch / "flow.log", output=output, namespace=net.sender)
        stack.enter_context(running(flow))
        time.sleep(HEAD_START_S)
        beside = None
        if company in ("cubic", "cubic-unlimited"):
            _serve(lab, net, stack, COMPANY_PORT)
            # The kernel paces it, as it paces a job with a limit.
            limit = () if path.cap_bps is None or company == "cubic-unlimited" else ("--fq-rate", str(path.cap_bps))
            more = Process(_iperf(net, COMPANY_PORT, "-t", "3600", *limit), log=lab.scratch / "company.log", namespace=net.sender)
            beside = stack.enter_context(running(more))
        elif company == "auto":
            beside = stack.enter_context(_advised_job(lab, net, path, protocol, settle_s - HEAD_START_S))
        flow.succeed(lasts_s + FIRST_DATA_S)
        if beside is not None and not beside.is_running:
            raise LabError(f"what was beside the flow ended before it{beside.log_tail()}")
        late_us = _lateness_us(lab, net)
    return float(json.loads(output.read_text())["end"]["sum_received"]["bits_per_second"]), late_us


@contextmanager
def _advised_job(lab: EnginesLab, net: Net, path: EnginePath, protocol: ProtocolInForce, within_s: float) -> Iterator[Process]:
    """A job as its pods run it, with the advisor beside its sender, once its data flow. LabError if that takes longer."""
    control = lab.scratch / "control.sock"
    control.unlink(missing_ok=True)
    served = ("--control-socket", control, "--http", f"127.0.0.1:{ADVISOR_PORT}", "--trace", lab.scratch / "trace.csv")
    advisor: list[str | Path] = [sys.executable, "-m", "fairlead_advisor", "run", *served]
    with (
        lab.mover.transfer(net, lab.scratch, "null", "--protocol", protocol) as transfer,
        running(Process(advisor, log=lab.scratch / "advisor.log", namespace=net.sender)),
    ):
        sender = transfer.send(LONG, *advised_options(protocol, path.cap_bps), "--control-socket", str(control))
        wait_until(lambda: control.exists() and _acked_bytes(control) > 0, "the job's first data", within_s)
        yield sender


def _iperf(net: Net, port: int, *options: str) -> list[str]:
    return ["iperf3", "-c", net.receiver_address, "-p", str(port), "-C", "cubic", *options]


def _serve(lab: EnginesLab, net: Net, stack: ExitStack, port: int) -> None:
    server = Process(["iperf3", "-s", "-1", "-p", str(port)], log=lab.scratch / f"server-{port}.log", namespace=net.receiver)
    stack.enter_context(running(server))
    await_listening(server, net.receiver, port)


def _acked_bytes(control: Path) -> int:
    return sum(int(stream["bytes_sent"]) for stream in ask_mover(control, "GET", "/v1/stats")["streams"])


def _lateness_us(lab: EnginesLab, net: Net) -> float:
    assert net.control is not None
    return float(statistics(lab.emulator, net.control)["ab"]["write_lateness_us"]["p99"])


def _verdict(transfer: MoverTransfer, role: Role) -> Verdict:
    verdict = parse_verdict(transfer.verdict_text(role.value), role)
    if verdict is None:
        raise LabError(f"the {role.value} left no verdict")
    return verdict
