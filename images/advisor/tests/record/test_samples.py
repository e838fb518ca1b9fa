import json
import math
from array import array
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fairlead_advisor.errors import RecordError
from fairlead_advisor.probe.trace import Trace
from fairlead_advisor.record.board import DecisionBoard
from fairlead_advisor.record.journal import Journal
from fairlead_advisor.record.metrics import AdvisorMetrics
from fairlead_advisor.record.samples import MOST_SAMPLES, sampled_traces, samples_json


def survey(**changes: object) -> dict[str, object]:
    return {"kind": "survey", "at": "noon", "send_times_s": [0.0, 0.05], "rtts_ms": [60.5, None], **changes}


def test_samples_come_back_from_a_record_as_they_were() -> None:
    trace = Trace(array("d", [7.0, 7.03336, 7.0667]), array("d", [60.1234, math.nan, 61.0]))
    [back] = sampled_traces([json.loads(json.dumps({"kind": "survey", **samples_json(trace)})), {"kind": "look"}])
    assert list(back.rows()) == [(0.0, 60.123), (0.0334, None), (0.0667, 61.0)]


def test_of_a_long_survey_the_last_samples_are_kept_and_of_none_nothing(tmp_path: Path) -> None:
    count = MOST_SAMPLES + 5
    kept = samples_json(Trace(array("d", range(count)), array("d", [60.0] * count)))
    assert (kept["send_times_s"][0], kept["send_times_s"][-1]) == (0.0, MOST_SAMPLES - 1)  # type: ignore[index]
    now = lambda: datetime(2026, 1, 1, tzinfo=UTC)  # noqa: E731
    DecisionBoard(AdvisorMetrics(), Journal(tmp_path / "decisions.jsonl", now), now).surveyed(Trace(array("d"), array("d")))
    assert not (tmp_path / "decisions.jsonl").exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"send_times_s": None},
        {"send_times_s": []},
        {"send_times_s": [0.0]},
        {"send_times_s": [0.05, 0.0]},
        {"send_times_s": [0.0, None]},
        {"send_times_s": [0.0, 10**400]},
        {"rtts_ms": "60.5"},
        {"rtts_ms": [60.5, "x"]},
        {"rtts_ms": [60.5, math.inf]},
        {"rtts_ms": [60.5, -1]},
    ],
)
def test_what_is_no_samples_is_refused_by_its_time(changes: dict[str, object]) -> None:
    with pytest.raises(RecordError, match="the survey of noon has no samples that belong together"):
        sampled_traces([survey(**changes)])
