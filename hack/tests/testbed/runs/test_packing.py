import pytest

from fairlead_dev.testbed.runs.packing import BUSY_CORES, IDLE_CORES, Budget, carried_bps, cost_cores, estimate_s, next_to_start
from fairlead_dev.testbed.runs.record import length_s
from fairlead_dev.testbed.scenario.model import Scenario

from ..build import path, scenario, tcp, udp

BUDGET = Budget(cores=0.54, runs=3)
"""Two runs of 100 Mb/s together, or three of less."""


def busy(mbps: float) -> Scenario:
    return scenario(tcp(), path=path(rate_bps=int(mbps * 1e6)))


@pytest.mark.parametrize(
    ("of", "mbps"),
    [
        pytest.param(scenario(), 0, id="idle"),
        pytest.param(busy(50), 50, id="greedy"),
        pytest.param(scenario(tcp("a", count=3)), 50, id="three greedy flows fill it once"),
        pytest.param(scenario(tcp("a"), tcp("b", direction="reverse")), 100, id="both ways"),
        pytest.param(scenario(udp(rate_bps=30_000_000, pattern={"kind": "on_off", "on_s": 1, "off_s": 2})), 10, id="UDP in bursts"),
        pytest.param(scenario(udp(rate_bps=300_000_000)), 50, id="UDP above the rate"),
    ],
)
def test_a_run_carries_what_its_flows_send_and_the_path_lets_pass(of: Scenario, mbps: float) -> None:
    assert carried_bps(of) == pytest.approx(mbps * 1e6)
    assert cost_cores(of) >= IDLE_CORES + (BUSY_CORES if mbps else 0)


def test_costs_are_as_measured() -> None:
    assert cost_cores(scenario()) == pytest.approx(0.05)
    assert cost_cores(busy(50)) == pytest.approx(0.16)
    assert cost_cores(busy(500)) == pytest.approx(0.70)
    assert cost_cores(scenario(tcp(), path=path(rate_bps=300_000_000, emulator="kernel"))) == pytest.approx(0.85)


def test_the_first_that_fits_starts() -> None:
    assert next_to_start([busy(400), busy(200), busy(50)], [busy(100)], BUDGET) == 2
    assert next_to_start([busy(400), busy(80)], [busy(100)], BUDGET) == 1
    assert next_to_start([busy(400)], [busy(100)], BUDGET) is None


def test_no_more_runs_than_allowed_go_side_by_side() -> None:
    assert next_to_start([scenario()], [scenario()] * 3, BUDGET) is None


def test_a_run_over_the_budget_goes_alone() -> None:
    assert next_to_start([busy(500)], [], BUDGET) == 0
    assert next_to_start([busy(500)], [scenario()], BUDGET) is None


def test_a_run_over_the_limit_for_company_goes_alone() -> None:
    budget = Budget(cores=2.0, runs=3, alone_cores=0.4)
    assert next_to_start([busy(300), busy(50)], [], budget) == 0
    assert next_to_start([busy(300), busy(50)], [busy(50)], budget) == 1
    assert next_to_start([busy(50)], [busy(300)], budget) is None
    one = length_s(scenario())
    assert estimate_s([busy(300), busy(50), busy(50), busy(300)], budget) == pytest.approx(3 * one)


def test_the_estimate_plays_the_packing_through() -> None:
    one = length_s(scenario())
    assert estimate_s([], BUDGET) == 0
    assert estimate_s([scenario()] * 3, BUDGET) == pytest.approx(one)
    assert estimate_s([scenario()] * 4, BUDGET) == pytest.approx(2 * one)
    assert estimate_s([busy(100)] * 4, BUDGET) == pytest.approx(2 * one)
