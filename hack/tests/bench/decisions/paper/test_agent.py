import math
from pathlib import Path

import numpy as np
import pytest

from fairlead_dev.bench.decisions.paper import agent
from fairlead_dev.bench.decisions.paper.agent import PaperLoop
from fairlead_dev.bench.decisions.paper.classifier import Training
from fairlead_dev.errors import NoAnswerError

# Floor: B0-C0; a standing queue of 40 ms: B1-C0.
TRAINING = Training(np.array([[0.0] * 10, [40.0] * 10]), np.array([0, 2]))


class Mover:
    def __init__(self) -> None:
        self.asked: list[object] = []
        self.answers = True

    def __call__(self, _control: Path, _method: str, _path: str, body: object) -> None:
        if not self.answers:
            raise NoAnswerError("not yet")
        self.asked.append(body)


@pytest.fixture
def mover(monkeypatch: pytest.MonkeyPatch) -> Mover:
    fake = Mover()
    monkeypatch.setattr(agent, "ask_mover", fake)
    return fake


def take(loop: PaperLoop, *samples_ms: float, start_s: int = 0) -> None:
    for number, sample in enumerate(samples_ms):
        loop.take(sample, start_s + number)


def test_the_choice_follows_every_tenth_sample_and_is_applied_when_it_changes(mover: Mover) -> None:
    loop = PaperLoop(TRAINING, Path("control"))
    loop.idle(100.0)
    take(loop, *[140.0] * 9)
    assert mover.asked == []
    take(loop, 140.0, *[140.0] * 10, *[100.0] * 10)
    assert mover.asked == [{"congestion_control": "bbr"}, {"congestion_control": "cubic"}]
    assert [(one["class"], one["congestion_control"]) for one in loop.decisions] == [("B1-C0", "bbr"), ("B1-C0", "bbr"), ("B0-C0", "cubic")]


def test_a_mover_that_is_not_ready_is_asked_again_with_the_next_sample(mover: Mover) -> None:
    loop = PaperLoop(TRAINING, Path("control"))
    loop.idle(100.0)
    mover.answers = False
    take(loop, *[140.0] * 10)
    mover.answers = True
    take(loop, 140.0)
    assert mover.asked == [{"congestion_control": "bbr"}]


def test_an_unanswered_first_window_takes_cubic_and_a_later_one_changes_nothing(mover: Mover) -> None:
    loop = PaperLoop(TRAINING, Path("control"))
    loop.idle(100.0)
    take(loop, *[math.nan] * 10)
    take(loop, *[140.0] * 10)
    take(loop, *[math.nan] * 10)
    assert mover.asked == [{"congestion_control": "cubic"}, {"congestion_control": "bbr"}]
