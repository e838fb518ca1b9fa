"""What fewer streams show of a path, and what follows where BBR is heard all the same."""

from dataclasses import replace

import pytest

from fairlead_advisor.decide.loop.alone import is_held, shown_bps
from fairlead_advisor.decide.loop.messages import ProbePaused
from fairlead_advisor.decide.model import TransportLimits
from fairlead_advisor.decide.optimizer import CountScore, CountTrial
from tests.decide.loop.test_machine import begun
from tests.support.model_mover import seen

BASE = CountScore(2, 40e6, 1e-4, 1.0, 3.0)
TRIAL = CountTrial(replace(BASE, streams=1), BASE, 1, "kept 1", at_once=True)


@pytest.mark.parametrize(
    ("trial", "cap_bps", "shown"),
    [
        pytest.param(TRIAL, None, 40e6, id="one stream has what two had"),
        pytest.param(replace(TRIAL, tried=replace(TRIAL.tried, goodput_bps=37e6)), None, None, id="it has less, as beside others"),
        pytest.param(replace(TRIAL, tried=replace(TRIAL.tried, busy_ratio=0.9)), None, None, id="the path is not full"),
        pytest.param(replace(TRIAL, base=replace(BASE, busy_ratio=None)), None, None, id="nobody knows whether it was full"),
        pytest.param(replace(TRIAL, kept=2), None, None, id="it was not kept"),
        pytest.param(replace(TRIAL, at_once=False), None, None, id="it has grown to that"),
        pytest.param(replace(TRIAL, base=replace(BASE, streams=3), tried=BASE, kept=2), None, None, id="two have what three had"),
        pytest.param(replace(TRIAL, base=replace(BASE, streams=4), tried=BASE, kept=2), None, 40e6, id="two have what four had"),
        pytest.param(replace(TRIAL, base=TRIAL.tried, tried=BASE, kept=2), None, None, id="two have what one had"),
        pytest.param(TRIAL, 42e6, None, id="a cap holds either"),
        pytest.param(TRIAL, 100e6, 40e6, id="a cap holds neither"),
    ],
)
def test_fewer_streams_with_as_much_of_a_full_path_show_that_nobody_is_there(
    trial: CountTrial, cap_bps: float | None, shown: float | None
) -> None:
    assert shown_bps(trial, cap_bps) == shown


@pytest.mark.parametrize(("goodput_bps", "held"), [(40e6, True), (37e6, True), (35e6, False), (60e6, False)])
def test_what_was_shown_holds_while_the_goodput_does(goodput_bps: float, held: bool) -> None:
    assert is_held(40e6, goodput_bps) is held
    assert not is_held(0.0, goodput_bps)


@pytest.mark.parametrize("alone", [True, False])
def test_bbr_that_is_heard_is_probed_for_unless_the_transfer_has_what_it_has_alone(alone: bool) -> None:
    loop = begun(limits=TransportLimits(1, 4))
    loop.rtt_ms = 75.0
    for _ in range(60):
        loop.goodput_bps = 80e6 if alone else 96e6 * loop.streams / (loop.streams + 0.2)
        loop.sample_answered()
    assert loop.streams == 1
    paused = any(isinstance(loop.sample_answered(seen("B1-C0"))[-1], ProbePaused) for _ in range(60))
    assert paused is not alone


def test_whoever_takes_it_is_probed_for() -> None:
    loop = begun(limits=TransportLimits(1, 4))
    loop.rtt_ms = 75.0
    for _ in range(60):
        loop.sample_answered()
    assert loop.state.monitor.alone_bps == pytest.approx(80e6)
    loop.goodput_bps = 20e6
    assert any(isinstance(loop.sample_answered(seen("B1-C0"))[-1], ProbePaused) for _ in range(15))
