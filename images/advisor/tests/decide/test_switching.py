import pytest

from fairlead_advisor.decide.switching import (
    BARRED_S,
    DWELL_S,
    LONGEST_DWELL_S,
    TRIAL_S,
    TRIAL_SETTLE_S,
    ControlSwitch,
    SwitchState,
    SwitchVerdict,
    answer,
    prove,
    try_out,
)


class Transfer:
    """Goodput by what is in force, in stretches of a second; sure answers at will."""

    def __init__(self, in_force: str = "cubic", goodputs_bps: dict[str, float] | None = None) -> None:
        self.state = SwitchState(in_force)
        self.goodputs_bps = goodputs_bps or {"cubic": 50e6, "bbr": 50e6}
        self.now_s = 0.0
        self.switches: list[tuple[float, ControlSwitch]] = []
        self.verdicts: list[SwitchVerdict] = []

    def run(self, seconds: float) -> "Transfer":
        for _ in range(round(seconds)):
            self.now_s += 1
            made = prove(self.state, self.now_s, 1.0, self.goodputs_bps[self.state.in_force])
            self.state = made.state
            if made.switch:
                self.switches.append((self.now_s, made.switch))
            if made.verdict:
                self.verdicts.append(made.verdict)
        return self

    def hear(self, wanted: str) -> "Transfer":
        made = answer(self.state, self.now_s, wanted, self.goodputs_bps[self.state.in_force], "a look")
        self.state = made.state
        if made.switch:
            self.switches.append((self.now_s, made.switch))
        return self


@pytest.mark.parametrize(("bbr_bps", "in_force"), [(56e6, "bbr"), (54e6, "cubic")])
def test_what_no_answer_chose_stays_only_if_it_brings_a_tenth(bbr_bps: float, in_force: str) -> None:
    transfer = Transfer(goodputs_bps={"cubic": 50e6, "bbr": bbr_bps})
    transfer.state = try_out(transfer.state, 0.0, "bbr", 50e6, "losses without a queue").state
    transfer.run(TRIAL_S + 1)
    assert transfer.state.in_force == in_force
    assert transfer.state.trial is None
    assert transfer.state.barred == {}, "an answer may choose it at any time"


def test_a_sure_answer_for_something_else_switches_at_once() -> None:
    transfer = Transfer().run(5).hear("cubic").hear("bbr")
    assert transfer.switches == [(5.0, ControlSwitch("bbr", undo=False, why="a look"))]
    assert transfer.state.trial is not None


@pytest.mark.parametrize(
    ("after_s", "switches"),
    [
        pytest.param(TRIAL_S - 1, 1, id="on trial"),
        pytest.param(DWELL_S - 1, 1, id="not before the dwell is over"),
        pytest.param(DWELL_S, 2, id="after it"),
    ],
)
def test_a_switch_stands_for_its_dwell(after_s: float, switches: int) -> None:
    assert len(Transfer().hear("bbr").run(after_s).hear("cubic").switches) == switches


def test_a_background_that_comes_and_goes_is_followed_ever_more_seldom() -> None:
    transfer = Transfer()
    for second in range(3600):
        transfer.run(1).hear(("bbr", "cubic")[second // 35 % 2])
    gaps_s = [later - earlier for (earlier, _), (later, _) in zip(transfer.switches, transfer.switches[1:], strict=False)]
    assert gaps_s[0] >= DWELL_S
    assert gaps_s[:3] == sorted(gaps_s[:3])
    assert max(gaps_s) >= 120
    assert all(state_s <= LONGEST_DWELL_S + 35 for state_s in gaps_s)
    assert len(transfer.switches) < 3600 / 35 / 3


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
    transfer = Transfer(in_force, {in_force: before_bps, to: after_bps}).hear(to).run(60)
    assert [verdict.kept for verdict in transfer.verdicts] == [kept]
    assert transfer.state.in_force == (to if kept else in_force)
    assert [switch.undo for _, switch in transfer.switches] == ([False] if kept else [False, True])
    if not kept:
        assert transfer.switches[1][0] - transfer.switches[0][0] == TRIAL_S


@pytest.mark.parametrize(
    ("after_bps", "reachable_bps", "kept"),
    [
        pytest.param(9e6, 9e6, True, id="all that the cap lets through"),
        pytest.param(5e6, 9e6, False, id="less than that"),
        pytest.param(45e6, 90e6, True, id="a cap above what there was"),
        pytest.param(40e6, 90e6, False, id="less than there was, below the cap"),
        pytest.param(0.0, 0.0, True, id="a cap that lets nothing through"),
    ],
)
def test_no_switch_is_blamed_for_what_a_cap_took_away(after_bps: float, reachable_bps: float, kept: bool) -> None:
    state, verdicts = answer(SwitchState("cubic"), 0.0, "bbr", 50e6, "a look").state, []
    for second in range(1, 21):
        made = prove(state, float(second), 1.0, after_bps, reachable_bps)
        state, verdicts = made.state, verdicts + ([made.verdict] if made.verdict else [])
    assert [verdict.kept for verdict in verdicts] == [kept]


@pytest.mark.parametrize(
    ("with_bbr_bps", "without_bps", "ends_with"),
    [
        pytest.param(18e6, 4e6, "bbr", id="CUBIC starves beside the newcomer"),
        pytest.param(18e6, 30e6, "cubic", id="BBR was worse"),
        pytest.param(18e6, 17e6, "cubic", id="no difference that counts"),
    ],
)
def test_a_switch_that_was_taken_back_is_compared_with_what_there_is_without_it_now(
    with_bbr_bps: float, without_bps: float, ends_with: str
) -> None:
    transfer = Transfer(goodputs_bps={"cubic": 38e6, "bbr": with_bbr_bps}).hear("bbr")
    transfer.goodputs_bps["cubic"] = without_bps
    transfer.run(2 * TRIAL_S)
    assert transfer.state.in_force == ends_with
    assert transfer.state.trial is None
    assert ("bbr" in transfer.state.barred) is (ends_with == "cubic")
    assert len(transfer.run(300).switches) == (3 if ends_with == "bbr" else 2)


def test_the_first_seconds_of_a_trial_do_not_count() -> None:
    transfer = Transfer(goodputs_bps={"cubic": 50e6, "bbr": 0.0}).hear("bbr").run(TRIAL_SETTLE_S)
    transfer.goodputs_bps["bbr"] = 50e6
    assert [verdict.goodput_ratio for verdict in transfer.run(TRIAL_S).verdicts] == [1.0]


def test_what_was_undone_is_not_tried_again_for_a_while() -> None:
    transfer = Transfer(goodputs_bps={"cubic": 50e6, "bbr": 10e6})
    for _ in range(400):
        transfer.hear("bbr").run(1)
    tried_s = [at_s for at_s, switch in transfer.switches if not switch.undo]
    assert len(tried_s) == 2
    assert tried_s[1] - tried_s[0] >= BARRED_S
