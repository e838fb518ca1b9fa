"""The sidecar beside the real mover, over an emulated path. Needs root and build/bin."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead_dev.wan.two_hosts import TwoHosts, WanPath, missing, noisy_source
from tests.support.command import PATIENCE_S

pytestmark = [pytest.mark.skipif(missing() is not None, reason=missing() or ""), pytest.mark.timeout(1200)]

LOSSY = WanPath("50M", "10ms", "1BDP", loss=0.02)


@pytest.fixture
def hosts() -> Iterator[TwoHosts]:
    with TwoHosts(LOSSY) as built:
        yield built


def entries(hosts: TwoHosts, kind: str) -> list[dict[str, Any]]:
    record = hosts.folder / "decisions.jsonl"
    lines = record.read_text().splitlines() if record.exists() else []
    return [entry for line in lines if (entry := json.loads(line))["kind"] == kind]


def flows(hosts: TwoHosts) -> bool:
    stats = hosts.ask_mover("/v1/stats")
    return bool(stats and stats["stage"] == "Transferring" and stats["streams"])


@pytest.mark.long
def test_a_lossy_path_is_given_more_streams_and_the_transfer_ends_well(hosts: TwoHosts) -> None:
    with noisy_source(hosts.folder, 400_000_000) as source:
        ends = hosts.send(source, "--await-transport", 30)
        # A busy machine's delays may be taken for somebody's BBR, beside which four streams of BBR are enough, or for a queue, beside which
        # others are spared.
        advisor = hosts.advise("--seconds", 1, "--congestion-control", "cubic", "--others-weight", 0)
        hosts.wait_for(lambda: any(entry["kept"] > 4 for entry in entries(hosts, "streams")), "more streams are kept", ends.sender)
        hosts.set_wan(loss=0, rate="1G")
        ends.sender.wait(timeout=PATIENCE_S)
        ends.receiver.wait(timeout=PATIENCE_S)
        assert (ends.sender.returncode, ends.receiver.returncode) == (0, 0), hosts.logs()
        assert (ends.arrived / "noise").stat().st_size == 400_000_000
        advisor.send_signal(signal.SIGTERM)
        assert advisor.wait(timeout=PATIENCE_S) == 0
    (end,) = entries(hosts, "end")
    assert end["goodput_bps"] > 0


@pytest.mark.long
@pytest.mark.parametrize("fault", ["killed", "stopped before it decided", "killed in mid-transfer and started again"])
def test_the_transfer_goes_on_whatever_becomes_of_the_advisor(hosts: TwoHosts, fault: str) -> None:
    starts_again = fault == "killed in mid-transfer and started again"
    size_bytes = 160_000_000
    between = ("--streams-min", 2, "--streams-max", 4)
    stops_early = fault == "stopped before it decided"
    with noisy_source(hosts.folder, size_bytes) as source:
        ends = hosts.send(source, "--await-transport", 4 if stops_early else 60, "--streams", 3)
        advisor = hosts.advise("--seconds", 1, *between)
        if stops_early:
            hosts.wait_for(lambda: hosts.ask_mover("/v1/peer") is not None, "the peer is there", ends.sender)
            os.kill(advisor.pid, signal.SIGSTOP)
        hosts.wait_for(lambda: flows(hosts), "data flows", ends.sender)
        if not stops_early:
            hosts.wait_for(lambda: len(entries(hosts, "decision")) >= 1, "its decision is on record", ends.sender)
            advisor.kill()
            advisor.wait()
        if starts_again:
            # A second advisor takes long to start on a busy machine, and data have to flow until it has decided.
            hosts.set_wan(rate="5M")
            before = [entry["decision"] for entry in entries(hosts, "decision")]
            tried = [entry["kept"] for entry in entries(hosts, "streams")]
            hosts.advise("--seconds", 1, *between)
            hosts.wait_for(lambda: len(entries(hosts, "decision")) > len(before), "it takes over", ends.sender)
            stood, again = before[-1], entries(hosts, "decision")[len(before)]["decision"]
            assert (again["reason"], again["congestion_control"]) == ("InForce", "cubic")
            # What stood goes on, though not all may be open yet.
            assert (tried[-1] if tried else stood["streams"]) <= again["streams"] <= 4
            assert stood["message"] in again["message"]
        # What is left is of no interest and need not take its time.
        hosts.set_wan(loss=0, rate="1G")
        ends.sender.wait(timeout=PATIENCE_S)
        ends.receiver.wait(timeout=PATIENCE_S)
        assert (ends.sender.returncode, ends.receiver.returncode) == (0, 0), hosts.logs()
        assert (ends.arrived / "noise").stat().st_size == size_bytes


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    hosts = TwoHosts(LOSSY)
    with hosts:
        names = (hosts.net.sender, hosts.net.receiver)
        assert all(Path("/run/netns", name).exists() for name in names)
    assert not any(Path("/run/netns", name).exists() for name in names)
    assert not hosts.folder.exists()
