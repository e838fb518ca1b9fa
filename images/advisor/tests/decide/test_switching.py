from collections.abc import Iterable

import pytest

from fairlead_advisor.decide.switching import BARRED_S, DWELL_S, TRIAL_S, Glance, Switch, SwitchState, Verdict, look

PERIOD_S = 10.0


class Looking:
    """Glances every ten seconds; goodput by what is in force."""

    def __init__(self, in_force: str = "cubic", goodputs_bps: dict[str, float] | None = None) -> None:
        self.state = SwitchState(in_force, since_s=0.0)
        self.goodputs_bps = goodputs_bps or {"cubic": 50e6, "bbr": 50e6}
        self.now_s = 0.0
        self.switches: list[tuple[float, Switch]] = []
        self.verdicts: list[Verdict] = []

    def see(self, votes: Iterable[str]) -> "Looking":
        for wanted in votes:
            self.now_s += PERIOD_S
            step = look(self.state, Glance(self.now_s, wanted, self.goodputs_bps[self.state.in_force]))
            self.state = step.state
            if step.switch:
                self.switches.append((self.now_s, step.switch))
            if step.verdict:
                self.verdicts.append(step.verdict)
        return self


@pytest.mark.parametrize(
    ("votes", "switches_at_s"),
    [
        pytest.param(["cubic"] * 30, [], id="nothing to change"),
        pytest.param(["cubic"] * 7 + ["bbr"] * 3, [100.0], id="three in a row after the dwell"),
        pytest.param(["bbr"] * 6, [DWELL_S], id="not before the dwell is over"),
        pytest.param(["cubic"] * 6 + ["bbr", "cubic", "bbr", "cubic", "bbr"], [110.0], id="three of five"),
        pytest.param(["cubic"] * 6 + ["bbr", "cubic", "cubic"] * 6, [], id="never three of five"),
        pytest.param(["cubic"] * 6 + ["bbr", "bbr", "cubic", "cubic", "cubic", "bbr", "cubic"], [], id="too far apart"),
    ],
)
def test_a_switch_needs_three_of_five_and_a_dwell_of_a_minute(votes: list[str], switches_at_s: list[float]) -> None:
    assert [at_s for at_s, _ in Looking().see(votes).switches] == switches_at_s


def test_two_switches_are_a_dwell_apart() -> None:
    looking = Looking().see(["cubic"] * 3 + ["bbr"] * 4 + ["cubic"] * 12)
    (first_s, to_bbr), (second_s, to_cubic) = looking.switches
    assert (to_bbr.to, to_cubic.to) == ("bbr", "cubic")
    assert second_s - first_s >= DWELL_S


@pytest.mark.parametrize(
    ("in_force", "to", "before_bps", "after_bps", "kept"),
    [
        pytest.param("cubic", "bbr", 10e6, 50e6, True, id="beside BBR, BBR gains"),
        pytest.param("cubic", "bbr", 50e6, 45e6, True, id="within what a sawtooth makes"),
        pytest.param("cubic", "bbr", 50e6, 40e6, False, id="BBR lost goodput"),
        pytest.param("bbr", "cubic", 89e6, 50e6, True, id="CUBIC gives the others their share"),
        pytest.param("bbr", "cubic", 50e6, 9e6, False, id="BBR is still there: CUBIC starves"),
        pytest.param("bbr", "cubic", 0.0, 0.0, True, id="nothing flowed before"),
    ],
)
def test_a_switch_that_made_things_worse_is_undone(in_force: str, to: str, before_bps: float, after_bps: float, kept: bool) -> None:
    looking = Looking(in_force, {in_force: before_bps, to: after_bps}).see([to] * 9)
    assert [verdict.kept for verdict in looking.verdicts] == [kept]
    assert looking.state.in_force == (to if kept else in_force)
    assert [switch.undo for _, switch in looking.switches] == ([False] if kept else [False, True])
    if not kept:
        assert looking.switches[1][0] - looking.switches[0][0] == TRIAL_S


def test_what_was_undone_is_not_tried_again_for_a_while() -> None:
    looking = Looking(goodputs_bps={"cubic": 50e6, "bbr": 10e6}).see(["bbr"] * 60)
    tried_s = [at_s for at_s, switch in looking.switches if not switch.undo]
    assert len(tried_s) == 2
    assert tried_s[1] - tried_s[0] >= BARRED_S
