from dataclasses import replace
from datetime import UTC, datetime

import pytest

from fairlead_advisor.decide.background import Background
from fairlead_advisor.decide.model import History, PathMeasurement, TransportLimits
from fairlead_advisor.decide.rule import decide
from fairlead_advisor.decide.streams import (
    Optimum,
    first_count,
    fit_coefficient,
    has_company,
    stream_count,
)
from tests.support.model_mover import seen

WAN = 6.5e-8
LAB = 1.495e-6


@pytest.mark.parametrize(
    ("coefficient", "bandwidth_mbps", "rtt_ms", "count"),
    [
        *[(WAN, b, r, n) for b, r, n in [(728.4, 191, 9), (638, 183, 8), (916, 211, 13), (780.5, 191, 10)]],
        *[(WAN, b, r, n) for b, r, n in [(660, 191, 8), (200, 183, 2), (740, 211, 10), (170, 191, 2)]],
        *[(LAB, 100, r, n) for r, n in zip(range(0, 160, 20), [1, 3, 6, 9, 12, 15, 18, 21], strict=True)],
        *[(LAB, 50, r, n) for r, n in zip(range(0, 160, 20), [1, 1, 3, 4, 6, 7, 9, 10], strict=True)],
        pytest.param(1e-7, 100, 250, 3, id="half is rounded up"),
    ],
)
def test_the_stream_model_gives_the_counts_of_its_tables(coefficient: float, bandwidth_mbps: float, rtt_ms: float, count: int) -> None:
    assert stream_count(coefficient, bandwidth_mbps * 1e6, rtt_ms / 1e3) == count


FOUND = [Optimum(8, 728.4e6, 0.191), Optimum(10, 638e6, 0.183), Optimum(10, 916e6, 0.211), Optimum(28, 780.5e6, 0.191)]


def test_the_coefficient_is_the_mean_of_what_was_found() -> None:
    assert fit_coefficient(FOUND[:3]) == pytest.approx(6.4964e-8, rel=1e-4)
    assert fit_coefficient(FOUND) == pytest.approx(9.5679e-8, rel=1e-4)


@pytest.mark.parametrize("found", [[], [Optimum(4, 0.0, 0.06)]])
def test_nothing_found_gives_no_coefficient(found: list[Optimum]) -> None:
    assert fit_coefficient(found) is None


PATH = PathMeasurement(rtt_s=0.06, rtt_minimum_s=0.06, loss_ratio=0.0, samples=200)
SILENT = PathMeasurement(rtt_s=None, rtt_minimum_s=None, loss_ratio=None, samples=0)
KNOWN = History(capacity_bps=1e9, stream_coefficient=LAB)


@pytest.mark.parametrize(
    ("path", "limits", "history", "count"),
    [
        pytest.param(PATH, TransportLimits(), History(), 4, id="unknown path"),
        pytest.param(SILENT, TransportLimits(), KNOWN, 4, id="unknown RTT"),
        pytest.param(PATH, TransportLimits(), History(capacity_bps=1e9), 4, id="unknown coefficient"),
        pytest.param(PATH, TransportLimits(), KNOWN, 32, id="clamped: a coefficient does not travel"),
        pytest.param(PATH, TransportLimits(cap_bps=50e6), KNOWN, 4, id="a cap needs fewer"),
        pytest.param(PATH, TransportLimits(cap_bps=50e6), History(stream_coefficient=LAB), 4, id="a cap is a bandwidth"),
        pytest.param(PATH, TransportLimits(7, 7), KNOWN, 7, id="set by the user"),
    ],
)
def test_the_first_count(path: PathMeasurement, limits: TransportLimits, history: History, count: int) -> None:
    assert first_count(path, limits, history)[0] == count


@pytest.mark.parametrize(
    ("limits", "history", "count"),
    [
        pytest.param(TransportLimits(), History(), 1, id="one share"),
        pytest.param(TransportLimits(), KNOWN, 1, id="whatever was learnt alone"),
        pytest.param(TransportLimits(shares=3), KNOWN, 3, id="as many shares as the owner allows"),
        pytest.param(TransportLimits(shares=8), History(), 8, id="more than the safe default"),
        pytest.param(TransportLimits(2, 8), History(), 2, id="the job's least"),
        pytest.param(TransportLimits(1, 2, shares=8), History(), 2, id="the job's most"),
        pytest.param(TransportLimits(others_weight=0), History(), 4, id="others need not be spared"),
        pytest.param(TransportLimits(7, 7), History(), 7, id="set by the user"),
        pytest.param(TransportLimits(cap_bps=50e6), KNOWN, 1, id="below its own limit too"),
        pytest.param(TransportLimits(cap_bps=50e6, allocated=True), KNOWN, 4, id="a share that was allocated need not be left to others"),
        pytest.param(TransportLimits(allocated=True), History(), 1, id="allocated, and no cap yet"),
    ],
)
def test_beside_others_a_job_begins_with_its_shares(limits: TransportLimits, history: History, count: int) -> None:
    assert first_count(PATH, limits, history, company=True)[0] == count


@pytest.mark.parametrize(
    ("background", "company"),
    [
        pytest.param(seen("B0-C0"), False, id="the classifier sees nobody"),
        pytest.param(seen("B0-C1"), True, id="the classifier sees somebody"),
        pytest.param(seen("B1-C0", abstained=True), True, id="unsure who it is, but not that somebody is there"),
        pytest.param(replace(seen("B0-C1"), novel=True), False, id="a novel path"),
        pytest.param(None, False, id="no classifier"),
    ],
)
def test_who_counts_as_company(background: Background | None, company: bool) -> None:
    assert has_company(background) is company


@pytest.mark.parametrize(
    ("background", "company"),
    [
        pytest.param(replace(seen("B0-C0"), measured_at=datetime(2026, 1, 1, tzinfo=UTC)), True, id="handed on without our own"),
        pytest.param(seen("B0-C0"), False, id="classified anew"),
        pytest.param(None, False, id="nothing handed on"),
    ],
)
def test_our_own_transfers_are_company_until_the_path_is_classified_anew(background: Background | None, company: bool) -> None:
    beside = History(beside_own=True)
    assert has_company(background, beside) is company
    assert decide(PATH, TransportLimits(), background, beside).streams == (1 if company else 4)
