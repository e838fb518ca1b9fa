from typing import Any

import pytest

from fairlead_dev.testbed.scenario.model import Scenario
from fairlead_dev.testbed.validation.scenarios import OVERLAY_1, against_theory, coexistence
from fairlead_dev.testbed.validation.theory import compare

from ..build import path, scenario, tcp, udp


def manifest(of: Scenario, goodput_bps: float = 0.0, **forward: Any) -> dict[str, Any]:
    idle = {"p50": of.path.rtt_ms + 0.3}
    counters = {"packets_in": 10_000, "packets_dropped_buffer": 0, "packets_dropped_loss": 0, "queue_bytes_peak": 0, **forward}
    flows = [{"goodput_bps": goodput_bps / max(1, len(of.flows))} for _ in of.flows]
    long = {"p95": of.path.rtt_ms + 0.9 * of.path.full_queue_ms + 1}
    queues = {"forward_bytes": {"p95": 0.9 * of.path.queue_bytes}}
    return {"probe": {"idle": {"rtt_ms": idle}, "rtt_ms": long}, "emulator": {"ab": counters}, "flows": flows, "queues": queues}


def found(of: Scenario, seen: dict[str, Any]) -> dict[str, tuple[float, float, bool]]:
    return {one.quantity: (one.expected, one.measured, one.holds) for one in compare(of, seen)}


def test_an_idle_path_is_held_to_its_delay_alone() -> None:
    assert found(scenario(), manifest(scenario())) == {"idle RTT": (40, 40.3, True)}


def test_a_full_link_carries_the_payloads_share_of_the_rate_and_fills_the_buffer() -> None:
    of = scenario(tcp(), path=path(rate_bps=100_000_000))
    seen = found(of, manifest(of, 96e6, packets_dropped_buffer=3, queue_bytes_peak=of.path.queue_bytes - 900))
    assert seen["goodput of a full link"] == (pytest.approx(96.533, abs=0.001), pytest.approx(96), True)
    assert seen["longest queue"][2] and seen["RTT through a long queue"][2]
    assert not found(of, manifest(of, 80e6))["goodput of a full link"][2]


def test_a_buffer_that_never_overflowed_says_nothing_about_its_size() -> None:
    of = scenario(tcp())
    assert "longest queue" not in found(of, manifest(of, 48e6))


def test_the_longest_queue_is_not_compared_where_the_kernel_does_not_tell_it() -> None:
    of = scenario(tcp(), path=path(emulator="kernel"))
    seen = found(of, manifest(of, 48e6, packets_dropped_buffer=3, queue_bytes_peak=None))
    assert set(seen) == {"idle RTT", "goodput of a full link", "RTT through a long queue"}


def test_theory_is_silent_on_queues_that_are_managed_and_on_policed_udp() -> None:
    managed = scenario(tcp(), path=path(queue="codel"))
    assert set(found(managed, manifest(managed, 48e6, packets_dropped_buffer=3))) == {"idle RTT", "goodput of a full link"}
    policed = scenario(udp(), path=path(police_udp={"rate_bps": 5_000_000}))
    assert set(found(policed, manifest(policed, 5e6))) == {"idle RTT"}


def test_an_overload_is_dropped_but_for_the_rate() -> None:
    of = scenario(udp(rate_bps=75_000_000))
    seen = found(of, manifest(of, 50e6 * 1472 / 1500, packets_dropped_buffer=3333))
    assert seen["UDP delivered"][2]
    assert seen["overflow of the buffer"] == (pytest.approx(1 / 3), 0.3333, True)


def test_random_loss_may_be_as_far_off_as_chance_allows_and_no_farther() -> None:
    of = scenario(udp(rate_bps=5_000_000), path=path(loss_ratio=0.01))
    assert found(of, manifest(of, 4.86e6, packets_dropped_loss=139))["random loss"][2]
    assert not found(of, manifest(of, 4.86e6, packets_dropped_loss=141))["random loss"][2]


def test_what_is_validated_has_names_of_its_own() -> None:
    names = [one.name for one in (*against_theory(10), *coexistence("overlay", OVERLAY_1, 10))]
    assert len(set(names)) == len(names) == 20
