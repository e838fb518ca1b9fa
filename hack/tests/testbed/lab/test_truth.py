"""The test bed against theory, coarsely: a busy machine may blur times, but not what is carried, queued, dropped and verified."""

import math
import statistics

import pytest

from fairlead_advisor.probe.trace import read_trace
from fairlead_dev.testbed.runs.quality import QualityLimits
from fairlead_dev.testbed.scenario.model import BURST_PACKET_BYTES

from .recorded import SCENARIOS, TRAINS, Run

PAYLOAD_SHARE = {"tcp": 1448 / 1500, "udp": 1472 / 1500}


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_run_leaves_its_four_files_whole(name: str, runs: dict[str, Run]) -> None:
    run = runs[name]
    bursts = {"bursts.csv"} if run.scenario.probe.bursts else set()
    assert {file.name for file in run.folder.iterdir()} == {"trace.csv", "flows.csv", "queue.csv", "manifest.json", *bursts}
    assert len(read_trace(run.folder / "trace.csv")) == run.manifest["probe"]["samples"]
    assert run.manifest["scenario"]["name"] == name
    assert run.rows("queue.csv")
    assert {row[1] for row in run.rows("flows.csv")} == set(run.flows)


@pytest.mark.parametrize("name", SCENARIOS)
def test_packets_are_all_accounted_for_and_none_was_lost_outside_the_path(name: str, runs: dict[str, Run]) -> None:
    for direction in ("ab", "ba"):
        stats = runs[name].manifest["emulator"][direction]
        assert stats["packets_overrun"] == 0
        dropped = sum(count for name, count in stats.items() if name.startswith("packets_dropped_"))
        assert stats["packets_in"] == stats["packets_out"] + dropped + stats["packets_in_flight"]


def test_the_idle_path_has_its_propagation_delay_and_loses_nothing(runs: dict[str, Run]) -> None:
    run = runs["idle"]
    assert 20.0 <= run.manifest["probe"]["rtt_ms"]["min"] < 25.0
    for direction in ("ab", "ba"):
        assert sum(count for name, count in run.manifest["emulator"][direction].items() if name.startswith("packets_dropped_")) == 0


def test_one_cubic_flow_fills_the_link_and_the_buffer_and_not_more(runs: dict[str, Run]) -> None:
    run = runs["full"]
    full_bps = run.scenario.path.rate_bps * PAYLOAD_SHARE["tcp"]
    assert 0.6 * full_bps < run.flows["bulk"]["goodput_bps"] < 1.02 * full_bps
    forward = run.manifest["emulator"]["ab"]
    assert forward["packets_dropped_buffer"] > 0
    assert run.scenario.path.queue_bytes - 1500 <= forward["queue_bytes_peak"] <= run.scenario.path.queue_bytes


def test_the_probe_sees_the_queue_that_the_emulator_holds(runs: dict[str, Run]) -> None:
    run = runs["full"]
    rtt = run.manifest["probe"]["rtt_ms"]
    full_ms = run.scenario.path.rtt_ms + run.scenario.path.full_queue_ms
    assert rtt["p50"] > run.scenario.path.rtt_ms + 0.3 * run.scenario.path.full_queue_ms
    assert rtt["p50"] < full_ms + 15
    assert run.manifest["queues"]["forward_bytes"]["max"] <= run.scenario.path.queue_bytes
    assert max(int(row[1]) for row in run.rows("queue.csv")) > 0.5 * run.scenario.path.queue_bytes


def test_an_overflowing_buffer_passes_the_rate_and_drops_the_rest(runs: dict[str, Run]) -> None:
    run = runs["overflow"]
    carried_bps = run.scenario.path.rate_bps * PAYLOAD_SHARE["udp"]
    assert 0.7 * carried_bps < run.flows["udp"]["goodput_bps"] < 1.03 * carried_bps
    forward = run.manifest["emulator"]["ab"]
    assert forward["packets_dropped_buffer"] / forward["packets_in"] == pytest.approx(1 / 3, abs=0.15)


def test_a_path_with_the_kernels_queue_has_its_delay_carries_its_rate_and_drops_what_does_not_fit(runs: dict[str, Run]) -> None:
    run = runs["kernel"]
    path, forward = run.scenario.path, run.manifest["emulator"]["ab"]
    assert path.rtt_ms <= run.manifest["probe"]["idle"]["rtt_ms"]["min"] < path.rtt_ms + 5
    carried_bps = path.rate_bps * PAYLOAD_SHARE["udp"]
    assert 0.7 * carried_bps < run.flows["udp"]["goodput_bps"] < 1.03 * carried_bps
    assert forward["packets_dropped_buffer"] / forward["packets_in"] == pytest.approx(1 / 3, abs=0.15)
    # A look's moment is known to a millisecond: a short time in which the queue was never empty tells the rate to some per cent only.
    if forward["busy_s"] >= QualityLimits().least_busy_s:
        assert 0.7 * path.rate_bps < forward["busy_rate_bps"] < 1.02 * path.rate_bps
    # Nothing but the kernel's queue holds or drops anything. Its peak is not counted: the fullest look may miss the last packets.
    assert 0.8 * path.queue_bytes <= run.manifest["queues"]["forward_bytes"]["max"] <= path.queue_bytes
    assert run.manifest["probe"]["rtt_ms"]["p50"] > path.rtt_ms + 0.5 * path.full_queue_ms
    assert forward["delay"]["parameters"]["rate_bps"] is None and forward["delay"]["queue_bytes_peak"] == 0
    assert forward["packets_dropped_loss"] == 0 and run.manifest["emulator"]["ba"]["packets_dropped_buffer"] == 0


def test_a_greedy_flow_fills_the_kernels_queue_at_its_rate_and_loses_at_random_as_asked(runs: dict[str, Run]) -> None:
    run = runs["kernel-greedy"]
    path, forward = run.scenario.path, run.manifest["emulator"]["ab"]
    assert run.flows["bulk"]["goodput_bps"] < 1.02 * path.rate_bps * PAYLOAD_SHARE["tcp"]
    through = forward["packets_in"] - forward["packets_dropped_buffer"]
    assert 0 < forward["packets_dropped_loss"] == pytest.approx(0.001 * through, abs=5 * math.sqrt(0.001 * through))


def test_a_path_treats_packets_as_its_scenario_says(runs: dict[str, Run]) -> None:
    run = runs["treated"]
    forward, reverse = (run.manifest["emulator"][direction] for direction in ("ab", "ba"))
    assert forward["parameters"]["queue"].startswith("fq-codel:")
    assert forward["packets_dropped_codel"] > 0
    assert run.manifest["queues"]["forward_bytes"]["p50"] < 0.5 * run.scenario.path.queue_bytes
    # Half of the UDP is policed away, and the probe's few packets share the other half with it.
    assert forward["packets_dropped_police_udp"] > 1000
    assert 0.25 * 4e6 < run.flows["udp"]["goodput_bps"] < 1.02 * 4e6 * PAYLOAD_SHARE["udp"]
    assert 0 < 4 * reverse["packets_dropped_thinned"] <= 3 * reverse["packets_in"]
    assert forward["packets_dropped_thinned"] == 0
    assert run.flows["bulk"]["goodput_bps"] > 0.3 * run.scenario.path.rate_bps


def test_random_loss_is_as_frequent_as_asked(runs: dict[str, Run]) -> None:
    forward = runs["loss"].manifest["emulator"]["ab"]
    spread = math.sqrt(0.02 * 0.98 / forward["packets_in"])
    assert forward["packets_dropped_loss"] / forward["packets_in"] == pytest.approx(0.02, abs=5 * spread)


def test_the_sockets_had_the_congestion_control_of_their_label_and_both_carried(runs: dict[str, Run]) -> None:
    run = runs["mixed"]
    assert run.flows["one"]["congestion_controls"] == ["cubic"]
    assert run.flows["other"]["congestion_controls"] == ["bbr"]
    goodputs = [flow["goodput_bps"] for flow in run.flows.values()]
    assert min(goodputs) > 0.01 * run.scenario.path.rate_bps
    assert sum(goodputs) > 0.5 * run.scenario.path.rate_bps * PAYLOAD_SHARE["tcp"]


def test_a_train_leaves_the_queue_at_the_rate_of_the_path_and_a_slow_burst_meets_none(runs: dict[str, Run]) -> None:
    rows = [[float(cell or "nan") for cell in row] for row in runs["bursts"].rows("bursts.csv")]
    *trains, slow = ([row for row in rows if row[0] == number] for number in range(TRAINS + 1))
    assert [len(burst) for burst in (*trains, slow)] == [*[20] * TRAINS, 100]
    path = runs["bursts"].scenario.path
    carried_bps = [_carried_bps(train, path.rtt_ms) for train in trains]
    assert max(carried_bps) < 1.1 * path.rate_bps
    # A busy machine holds a train up, though hardly all of them.
    assert max(carried_bps) > 0.5 * path.rate_bps
    assert slow[-1][1] - slow[0][1] == pytest.approx(99 * BURST_PACKET_BYTES * 8 / 10_000_000, abs=0.05)
    # With a queue each of them would be later than the one before.
    assert min(rtt_ms for *_, rtt_ms in slow[len(slow) // 2 :]) < path.rtt_ms + 5


def _carried_bps(train: list[list[float]], rtt_ms: float) -> float:
    """At which rate a train that is sent at once leaves the queue: its last packet waits for all others."""
    (_, first_sent_s, _), (_, last_sent_s, last_rtt_ms) = train[0], train[-1]
    return len(train) * BURST_PACKET_BYTES * 8 / (last_sent_s - first_sent_s + (last_rtt_ms - rtt_ms) / 1000)


def test_patterns_go_on_and_off_as_planned(runs: dict[str, Run]) -> None:
    run = runs["patterns"]
    planned = {name: [(edge["what"], edge["planned_s"]) for edge in run.flows[name]["edges"]] for name in ("udp", "wave")}
    assert planned["udp"] == [("on", 0), ("off", 1), ("on", 3), ("off", 4), ("on", 6), ("off", 7)]
    assert planned["wave"][:4] == [("on", 0), ("off", 1), ("on", 2), ("off", 3)]
    assert run.flows["udp"]["goodput_bps"] == pytest.approx(4_000_000 * 3 / 7 * PAYLOAD_SHARE["udp"], rel=0.3)
    ended_s, began_s = (run.flows["udp"]["edges"][edge]["actual_s"] for edge in (3, 4))
    silent = [float(row[2]) for row in run.rows("flows.csv") if row[1] == "udp" and ended_s + 0.6 < float(row[0]) < began_s]
    assert not silent or statistics.median(silent) == 0


def test_files_are_copied_one_after_another_and_the_other_direction_carries_too(runs: dict[str, Run]) -> None:
    run = runs["patterns"]
    assert run.flows["files"]["transfers"] >= 3
    assert run.flows["back"]["goodput_bps"] > 0.3 * run.scenario.path.rate_bps
