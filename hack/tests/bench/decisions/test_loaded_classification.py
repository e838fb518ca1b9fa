from array import array
from collections.abc import Sequence
from pathlib import Path

import pytest

from fairlead_advisor.decide.background import Background
from fairlead_advisor.errors import TraceError
from fairlead_advisor.models.answer import CLASSES
from fairlead_advisor.probe.trace import Trace, write_trace
from fairlead_dev.bench.decisions.loaded_classification import beside, figures, replay, watched_in
from fairlead_dev.bench.decisions.matrix import Policy
from fairlead_dev.testbed.runs.plans import TRACE

from .made import VISIT, outcome


def answer(name: str) -> Background:
    probabilities = {each: float(each == name) for each in CLASSES}
    return Background(probabilities, float(name.startswith("B1")), 1.0, abstained=False, model="test-1")


def answers(*names: str) -> Sequence[tuple[float, Background]]:
    return [(13.0 + 5 * number, answer(name)) for number, name in enumerate(names)]


def test_bbr_beside_own_cubic_is_found_and_nothing_is_told_against_the_truth() -> None:
    found = beside(outcome("B1-C0", Policy.CUBIC, 1), answers("C1-C1", "B1-C1", "B1-C1"))
    assert (found.against_wrong_s, found.against_right_s) == (23.0, None)
    mistaken = beside(outcome("B0-C1", Policy.CUBIC, 1), answers("B1-C1", "B1-C1"))
    assert (mistaken.against_wrong_s, mistaken.against_right_s) == (None, 18.0)
    deafened = beside(outcome("B1-C1", Policy.BBR, 1), answers(*["B1-B1"] * 4, *["B1-C1"] * 4))
    assert (deafened.against_wrong_s, deafened.against_right_s) == (None, 48.0)


def test_the_shares_are_of_the_runs_that_they_speak_of() -> None:
    replayed = [
        beside(outcome("B1-C0", Policy.CUBIC, 1), answers("B1-C1", "B1-C1")),
        beside(outcome("B1-B1", Policy.CUBIC, 1), answers("B0-C1", "B0-C1")),
        beside(outcome("B0-C1", Policy.CUBIC, 1), answers("B1-C1", "B1-C1")),
        beside(outcome("B1-C0", Policy.BBR, 1), answers("B1-B1")),
    ]
    assert figures(replayed) == {"listening_found_share": 0.5, "listening_found_s_median": 18.0, "listening_wrong_share": 0.25}
    assert set(figures([]).values()) == {None}


def test_the_windows_are_those_of_the_sidecar(tmp_path: Path) -> None:
    times_s = [number / 20 for number in range(20 * 60)]
    runs = [outcome("B1-C0", policy, 1, seconds=40.0) for policy in (Policy.CUBIC, Policy.OURS)]
    (tmp_path / runs[0].run).mkdir()
    write_trace(tmp_path / runs[0].run / TRACE, Trace(array("d", times_s), array("d", [60.0] * len(times_s))))
    asked: list[tuple[float, float, int]] = []

    def classify(trace: Trace, window_s: float) -> Background:
        asked.append((trace.send_times_s[0], trace.send_times_s[-1], len(trace)))
        if len(asked) == 1:
            raise TraceError("too few")
        return answer("B1-C1")

    (found,) = replay([*runs, outcome("B0-C0", Policy.CUBIC, 1, scene=VISIT)], watched_in(tmp_path), classify)
    first_s, last_s, samples = asked[0]
    assert (first_s, last_s, samples) == (3.0, 14.0, 111)
    assert [round(last_s) for _, last_s, _ in asked] == [14, 19, 24, 29, 34, 39]
    assert found.against_wrong_s == pytest.approx(24.0)
