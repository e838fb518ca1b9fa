"""The path with the kernel's queue: what is set up, and what its counters become. Nothing is run."""

import json
import os
from typing import Any

import pytest

from fairlead_dev.netlab import links, namespaces
from fairlead_dev.netlab.counters import QueueCounters
from fairlead_dev.testbed.lab import routers
from fairlead_dev.testbed.lab.emulator import Emulator
from fairlead_dev.testbed.lab.kernel_queue import BusyRate, KernelQueue, direction, emulated
from fairlead_dev.testbed.lab.namespaces import Names
from fairlead_dev.testbed.lab.routers import RouterSide, bucket_bytes, lay, loss_rules
from fairlead_dev.testbed.scenario.model import Path as NetworkPath

from .build import path

SIDE = RouterSide("host", "router", "198.18.0.1", "198.18.3.1", near=("198.18.1.1",), far=("198.18.0.2", "198.18.2.1"))
NAMES = Names.of(1, 1)


def kernel_path(**changes: Any) -> NetworkPath:
    return NetworkPath.model_validate(path(emulator="kernel", **changes))


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What would be run: `NAMESPACE: COMMAND`, or a line of `ip -batch`; and what the packet filter would be told."""
    ran: list[str] = []

    def note(args: list[str], *, namespace: str | None = None, stdin: str | None = None) -> str:
        lines = (stdin or "").strip().splitlines()
        ran.extend([f"{args[2]}: {line.strip()}" for line in lines] if args[0] == "ip" else [f"{namespace}: {' '.join(args)}", *lines])
        return ""

    for module in (links, namespaces, routers):
        monkeypatch.setattr(module, "run", note)
    return ran


def test_the_router_has_the_bottleneck_where_it_sends_to_the_other_one(commands: list[str]) -> None:
    lay(SIDE, "wan0", kernel_path(buffer_bdp=0.5), queue_packets=20_000, segments=1)
    assert "router: tc qdisc add dev wan0 root tbf rate 50000000bit burst 6250 limit 125000" in commands
    assert not [command for command in commands if "nft" in command]
    assert not [command for command in commands if command.startswith("host: tc")]


def test_what_comes_from_the_other_router_is_lost_at_random_after_queue_and_delay(commands: list[str]) -> None:
    lay(SIDE, "wan0", kernel_path(loss_ratio=1.3e-6), queue_packets=20_000, segments=1)
    told = commands[commands.index("router: nft -f -") :]
    assert '    iifname "wan0" numgen random mod 1000000000 < 1300 counter name "lost" drop' in told
    assert "    type filter hook forward priority 0;" in told


@pytest.mark.parametrize(("ratio", "parts"), [(0.5, 500_000_000), (0.02, 20_000_000), (1e-6, 1_000)])
def test_losses_are_as_frequent_as_asked_for(ratio: float, parts: int) -> None:
    assert f"< {parts} counter" in loss_rules("wan0", ratio)


def test_packets_are_of_the_wires_size_and_as_many_at_a_time_as_over_the_other_emulator(commands: list[str]) -> None:
    lay(SIDE, "wan0", kernel_path(), queue_packets=20_000, segments=8)
    assert "host: link set path0 mtu 1500 gso_max_segs 8 up" in commands
    off = "tso off gso off gro off tx-udp-segmentation off"
    assert {f"host: ethtool -K path0 {off}", f"router: ethtool -K host0 {off}"} <= set(commands)


def test_everything_beyond_the_path_and_behind_the_host_has_its_route(commands: list[str]) -> None:
    lay(SIDE, "wan0", kernel_path(), queue_packets=20_000, segments=1)
    for far in ("198.18.0.2", "198.18.2.1"):
        assert f"host: route add {far} via 198.18.3.1 dev path0 src 198.18.0.1" in commands
    assert "router: route add 198.18.1.1 via 198.18.0.1 dev host0" in commands
    assert "router: route add default dev wan0" in commands


def test_all_processors_receive_on_the_hops_that_the_other_emulator_does_not_have(commands: list[str]) -> None:
    lay(SIDE, "wan0", kernel_path(), queue_packets=20_000, segments=1)
    for namespace, device in (("host", "path0"), ("router", "host0")):
        mask = commands[commands.index(f"{namespace}: tee /sys/class/net/{device}/queues/rx-0/rps_cpus") + 1]
        assert int(mask, 16).bit_count() == min(os.cpu_count() or 1, 32)


@pytest.mark.parametrize(("rate_bps", "expected"), [(1_000_000, 3_000), (20_000_000, 3_000), (50_000_000, 6_250), (400_000_000, 50_000)])
def test_a_bucket_holds_a_millisecond_of_the_rate_and_two_packets_at_least(rate_bps: int, expected: int) -> None:
    assert bucket_bytes(rate_bps) == expected


def test_routers_are_namespaces_of_a_path_with_the_kernels_queue_alone() -> None:
    plain = NetworkPath.model_validate(path())
    assert len(NAMES.of_path(plain)) == 4 and NAMES.path_ends(plain) == (NAMES.a, NAMES.b)
    assert set(NAMES.of_path(kernel_path())) - set(NAMES.of_path(plain)) == {NAMES.router_a, NAMES.router_b}
    assert NAMES.path_ends(kernel_path()) == (NAMES.router_a, NAMES.router_b)


def test_the_path_says_which_emulator_there_is(tmp_path: Any) -> None:
    made = {
        kind: emulated(tmp_path, NAMES, NetworkPath.model_validate(path(emulator=kind)), seed=1, socket=tmp_path, priority=None)
        for kind in ("fairlead-wan", "kernel")
    }
    assert isinstance(made["fairlead-wan"], Emulator) and isinstance(made["kernel"], KernelQueue)


def queue(*, sent: int = 0, waiting: int = 0, dropped: int = 0) -> QueueCounters:
    return QueueCounters(sent * 1500, sent, waiting * 1500, waiting, dropped)


def delay(**changes: Any) -> dict[str, Any]:
    counters = {"packets_in": 900, "packets_out": 880, "packets_in_flight": 20, "packets_dropped_memory": 0, "packets_dropped_device": 0}
    return {**counters, "packets_overrun": 0, "queue_bytes": 0, "write_lateness_us": {"p50": 1, "p99": 2, "max": 3}, **changes}


def test_counters_have_the_form_of_the_other_emulators_and_none_is_left_out() -> None:
    seen = direction(delay(), queue(sent=900, waiting=40, dropped=60), 30, 0, BusyRate(1e6))
    assert (seen["packets_in"], seen["packets_out"]) == (1000, 850)
    assert (seen["packets_dropped_buffer"], seen["packets_dropped_loss"], seen["packets_in_flight"]) == (60, 30, 60)
    assert seen["packets_in"] == seen["packets_out"] + 60 + 30 + seen["packets_in_flight"]
    assert (seen["queue_bytes"], seen["queue_bytes_peak"]) == (60_000, None)
    assert seen["delay"]["packets_in"] == 900
    json.dumps(seen)


def test_what_the_kernel_dropped_between_host_and_router_counts_as_lost_outside_the_path() -> None:
    assert direction(delay(packets_overrun=2), queue(), 0, 3, BusyRate(1e6))["packets_overrun"] == 5
    assert direction(delay(packets_overrun=None), queue(), 0, 3, BusyRate(1e6))["packets_overrun"] is None


def test_a_queues_rate_is_that_of_the_time_in_which_it_cannot_have_been_empty() -> None:
    busy = BusyRate(12_000_000)  # a packet in 1 ms
    looks = [(0.0, queue(waiting=200)), (0.1, queue(sent=100, waiting=99)), (0.2, queue(sent=150, waiting=200)), (0.3, queue(sent=249))]
    for now_s, counters in looks:
        busy.look(now_s - 0.0005, now_s + 0.0005, counters)
    # Of the second interval it may have been empty at the end.
    assert busy.busy_s == pytest.approx(0.2)
    assert busy.sent_bps == pytest.approx(199 * 12_000 / 0.2)


def test_a_look_in_the_midst_of_which_the_machine_was_busy_elsewhere_does_not_count() -> None:
    busy = BusyRate(12_000_000)
    for asked_s, answered_s, sent in ((0.0, 0.0, 0), (0.1, 0.16, 100), (0.2, 0.2, 200), (0.3, 0.3, 300)):
        busy.look(asked_s, answered_s, queue(sent=sent, waiting=200))
    assert (busy.busy_s, busy.sent_bps) == (pytest.approx(0.1), pytest.approx(12_000_000))


def test_a_queue_that_was_never_long_has_no_rate() -> None:
    busy = BusyRate(12_000_000)
    assert busy.sent_bps is None
    for number in range(3):
        busy.look(number / 10, number / 10, queue(sent=100 * number, waiting=9))
    assert (busy.busy_s, busy.sent_bps) == (0.0, None)
