from typing import Any

import pytest

from fairlead_dev.testbed.runs.quality import QualityLimits, judge
from fairlead_dev.testbed.scenario.model import Scenario

from ..build import good_direction, good_flows, good_probe, path, scenario, tcp, udp

BOTH = scenario(tcp("bulk"), tcp("other", "bbr"))


def verdict_of(of: Scenario = BOTH, emulator: Any = None, probe: Any = None, flows: Any = None) -> tuple[str, ...]:
    emulator = emulator or {"ab": good_direction(), "ba": good_direction()}
    return judge(of, emulator, probe or good_probe(of), good_flows(of) if flows is None else flows, QualityLimits()).faults


def test_an_undisturbed_run_is_good() -> None:
    assert verdict_of() == ()
    assert verdict_of(scenario()) == ()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"packets_overrun": 1}, "dropped 1 packets before the emulator", id="overrun"),
        pytest.param({"packets_overrun": None}, "dropped None packets", id="overruns are unknown"),
        pytest.param({"packets_dropped_memory": 2}, "would have carried", id="out of memory"),
        pytest.param({"write_lateness_us": {"p50": 90, "p99": 1601, "max": 2000}}, "1601 us late (p99), at most 1600", id="late by p99"),
        pytest.param({"write_lateness_us": {"p50": 90, "p99": 500, "max": 100_100}}, "100.1 ms late", id="once very late"),
    ],
)
def test_an_emulator_that_could_not_keep_up_is_a_fault_in_either_direction(changes: dict[str, Any], message: str) -> None:
    for disturbed in ("ab", "ba"):
        emulator = {"ab": good_direction(), "ba": good_direction(), disturbed: good_direction(**changes)}
        (fault,) = verdict_of(emulator=emulator)
        assert message in fault
        assert fault.startswith(disturbed)


@pytest.mark.parametrize(
    ("busy", "share"),
    [
        pytest.param({"busy_s": 3.0, "busy_rate_bps": 47_400_000}, "-5.2%", id="too slow"),
        pytest.param({"busy_s": 1.0, "busy_rate_bps": 53_000_000}, "+6.0%", id="too fast"),
        pytest.param({"busy_s": 3.0, "busy_rate_bps": 47_600_000}, None, id="near enough"),
        pytest.param({"busy_s": 0.9, "busy_rate_bps": 30_000_000}, None, id="too short to tell"),
        pytest.param({"busy_s": 0.0, "busy_rate_bps": None}, None, id="never busy"),
    ],
)
def test_a_kernels_queue_that_was_off_its_rate_while_never_empty_is_a_fault(busy: dict[str, Any], share: str | None) -> None:
    faults = verdict_of(emulator={"ab": good_direction(**busy), "ba": good_direction()})
    expected = () if share is None else (f"ab: the kernel's queue was {share} off the rate while it was never empty, at most 5% is right",)
    assert faults == expected


def test_bursts_that_left_late_are_a_fault() -> None:
    one = scenario(probe={"bursts": [{"start_s": 1, "packets": 40}]})
    assert verdict_of(one) == ()
    late = good_probe(one, bursts={"packets": 40, "answered": 40, "send_lateness_ms": {"p99": 5.1, "max": 9.0}})
    (fault,) = verdict_of(one, probe=late)
    assert "bursts were sent 5.1 ms late" in fault


@pytest.mark.parametrize(("rtt_ms", "p99_us", "good"), [(40, 1600, True), (40, 1601, False), (5, 1000, True), (5, 1001, False)])
def test_packets_may_be_late_by_a_millisecond_or_a_fiftieth_of_the_rtt_through_a_full_queue(rtt_ms: float, p99_us: int, good: bool) -> None:
    one = scenario(tcp("bulk"), path=path(rtt_ms=rtt_ms, buffer_bdp=1.0))
    late = good_direction(write_lateness_us={"p50": 90, "p99": p99_us, "max": 2000})
    assert (verdict_of(one, emulator={"ab": late, "ba": good_direction()}) == ()) is good


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"samples": 1499}, "1499 of 1500", id="a request is missing"),
        pytest.param({"send_lateness_ms": {"p99": 5.1, "max": 9.0}}, "5.1 ms late", id="late requests"),
        pytest.param({"send_lateness_ms": {"p99": 0.1, "max": 100.5}}, "100.5 ms late", id="a very late request"),
        pytest.param({"start_late_ms": 51.0}, "started 51 ms late", id="late start"),
        pytest.param({"idle": {"samples": 100, "rtt_ms": None}}, "idle path answered no", id="nothing answered before"),
        pytest.param({"answered": 0}, "no request of the recording", id="nothing answered"),
        pytest.param({"rtt_ms": {"min": 39.8}}, "0.20 ms sooner than the path allows", id="clocks read apart"),
        pytest.param({"idle": {"samples": 1, "rtt_ms": {"min": 40.1, "p50": 40.2, "p95": 41.7}}}, "spread by 1.60 ms", id="idle jitter"),
        pytest.param({"idle": {"samples": 1, "rtt_ms": {"min": 41.7, "p50": 41.8, "p95": 41.9}}}, r"+1.80 ms off", id="too long"),
        pytest.param({"idle": {"samples": 1, "rtt_ms": {"min": 39.7, "p50": 39.8, "p95": 39.9}}}, r"-0.20 ms off", id="too short"),
    ],
)
def test_a_disturbed_probe_is_a_fault(changes: dict[str, Any], message: str) -> None:
    (fault,) = verdict_of(probe=good_probe(BOTH, **changes))
    assert message in fault


def test_another_congestion_control_than_the_label_says_is_a_fault() -> None:
    flows = good_flows(BOTH)
    flows[0]["congestion_controls"] = ["cubic", "reno"]
    flows[1]["congestion_controls"] = []
    assert verdict_of(flows=flows) == (
        "bulk: the sockets' congestion control was cubic, reno, cubic was asked for",
        "other: the sockets' congestion control was none, bbr was asked for",
    )


def test_a_flow_that_carried_nothing_is_a_fault_as_its_label_would_be_wrong() -> None:
    flows = good_flows(BOTH)
    flows[1]["goodput_bps"] = 900
    assert verdict_of(flows=flows) == ("other: carried 900 b/s, less than a packet a second",)


def test_greedy_flows_that_leave_the_path_empty_are_a_fault_unless_loss_or_a_policer_holds_them_back() -> None:
    flows = good_flows(BOTH)
    for flow in flows:
        flow["goodput_bps"] = 2_000_000
    (fault,) = verdict_of(flows=flows)
    assert fault.startswith("forward: greedy flows carried 8% of the rate")
    assert verdict_of(scenario(tcp("bulk"), tcp("other", "bbr"), path=path(loss_ratio=0.01)), flows=flows) == ()
    policed = path(police={"rate_bps": 5_000_000})
    assert verdict_of(scenario(tcp("bulk"), tcp("other", "bbr"), path=policed), flows=flows) == ()


def test_a_late_edge_a_failed_connection_and_a_missing_flow_are_faults() -> None:
    wave = scenario(udp(pattern={"kind": "on_off", "on_s": 1, "off_s": 2}))
    flows = good_flows(wave)
    flows[0]["edges"][0]["actual_s"] += 0.2
    assert "201 ms late" in verdict_of(wave, flows=flows)[0]
    flows = good_flows(BOTH)
    flows[0]["failures"] = ["3.000 s: Connection reset by peer"]
    assert verdict_of(flows=flows) == ("bulk: 3.000 s: Connection reset by peer",)
    assert verdict_of(flows=good_flows(BOTH)[:1]) == ("the flows that ran are not those planned",)
