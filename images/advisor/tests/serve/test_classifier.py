import asyncio
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairlead_advisor.decide.background import Background
from fairlead_advisor.errors import ClassifierAnswerError, TraceError
from fairlead_advisor.features.vector import NAMES
from fairlead_advisor.models.answer import CLASSES
from fairlead_advisor.models.model import Model
from fairlead_advisor.models.store import find_model
from fairlead_advisor.probe.trace import Trace
from fairlead_advisor.serve.classifier import NONE, LoadedClassifier, OneAtATime, classify_window, load_classifier
from tests.support.background import caricature
from tests.support.model_mover import seen
from tests.support.models import METADATA, tiny_model, write_model
from tests.support.traces import steady, trace_of

PATIENCE_S = 240.0


def model_of(folder: Path, **metadata: Any) -> Path:
    """Says B0-C1 for sure."""
    weights = np.zeros((len(NAMES), len(CLASSES)))
    weights[NAMES.index("spectral_entropy"), CLASSES.index("B0-C1")] = 60.0
    return write_model(folder / "model.onnx", tiny_model(replace(METADATA, **metadata), weights))


async def test_an_answer_has_all_that_a_decision_needs(tmp_path: Path) -> None:
    loaded = load_classifier(model_of(tmp_path))
    assert loaded.classifier is not None
    assert (loaded.why_not, loaded.classifier.windows_s) == ("", (10.0,))
    background = await loaded.classifier.classify(caricature("B0-C1", rate_hz=50.0), 10.0)
    assert background.likeliest[0] == "B0-C1"
    assert (background.abstained, background.novel, background.sure_from) == (False, False, 0.7)
    assert background.model.startswith("background-1.2.3 (sha256:")


async def test_it_computes_off_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = load_classifier(model_of(tmp_path))
    threads: list[int] = []
    predict = Model.predict

    def noted(model: Model, features: Any) -> Any:
        threads.append(threading.get_ident())
        return predict(model, features)

    monkeypatch.setattr(Model, "predict", noted)
    assert loaded.classifier is not None
    await loaded.classifier.classify(caricature("B0-C1"), 10.0)
    assert len(threads) == 1
    assert threads[0] != threading.get_ident()


async def test_one_that_hangs_is_not_asked_again_and_is_waited_for_by_nobody() -> None:
    hangs, one = threading.Event(), OneAtATime()

    def work() -> Background:
        assert hangs.wait(PATIENCE_S)
        return seen("B0-C1")

    first = asyncio.ensure_future(one.run(work))
    await asyncio.sleep(0)
    with pytest.raises(ClassifierAnswerError, match="has not answered an earlier question yet"):
        await one.run(work)
    hangs.set()
    assert (await asyncio.wait_for(first, PATIENCE_S)).likeliest[0] == "B0-C1"
    with pytest.raises(ValueError, match="of its own"):
        await asyncio.wait_for(one.run(fails), PATIENCE_S)


async def test_whoever_has_the_answer_may_ask_again_at_once() -> None:
    one = OneAtATime()
    for _ in range(500):
        assert (await asyncio.wait_for(one.run(lambda: seen("B0-C1")), PATIENCE_S)).likeliest[0] == "B0-C1"


def fails() -> Background:
    raise ValueError("of its own")


def test_a_path_unlike_any_known_is_marked_as_such(tmp_path: Path) -> None:
    background = classify_window(find_model(model_of(tmp_path, maximum_novelty=1e-9)), caricature("B0-C1"), 10.0)
    assert (background.abstained, background.novel) == (True, True)


@pytest.mark.parametrize(
    ("trace", "complaint"),
    [
        pytest.param(trace_of([]), "only 0 request", id="empty"),
        pytest.param(steady(1), "only 1 request", id="one"),
        pytest.param(steady(100), "not covered", id="too short"),
        pytest.param(steady(1000, rtt_ms=None), "not covered", id="nothing answered"),
        pytest.param(trace_of([(float(second), 10.0) for second in range(30)]), "not covered", id="too slow"),
    ],
)
def test_a_trace_that_holds_too_little_is_refused(tmp_path: Path, trace: Trace, complaint: str) -> None:
    with pytest.raises(TraceError, match=complaint):
        classify_window(find_model(model_of(tmp_path)), trace, 10.0)


def test_whatever_a_model_raises_is_an_error_that_the_loop_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_model: Model, _features: Any) -> Any:
        raise RuntimeError("a kernel is missing")

    model = find_model(model_of(tmp_path))
    monkeypatch.setattr(Model, "predict", broken)
    with pytest.raises(ClassifierAnswerError, match=r"background-1\.2\.3 .* failed on a window of 10 s: a kernel is missing"):
        classify_window(model, caricature("B0-C1"), 10.0)


def test_a_constant_path_is_an_answer_too(tmp_path: Path) -> None:
    assert classify_window(find_model(model_of(tmp_path)), steady(1000, 0.02), 10.0).confidence >= 0.5


def test_to_do_without_is_a_choice_and_what_cannot_be_read_a_reason(tmp_path: Path) -> None:
    assert load_classifier(NONE) == LoadedClassifier(None, "--model none")
    missing = load_classifier(tmp_path / "missing.onnx")
    assert missing.classifier is None
    assert "no such file" in missing.why_not
