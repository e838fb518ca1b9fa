import json
import math
from array import array

import pytest

from fairlead_advisor.errors import RecordError
from fairlead_advisor.probe.trace import Trace
from fairlead_advisor.record.samples import sampled_traces, samples_json


def survey(**changes: object) -> dict[str, object]:
    return {"kind": "survey", "at": "noon", "send_times_s": [0.0, 0.05], "rtts_ms": [60.5, None], **changes}


def test_samples_come_back_from_a_record_as_they_were() -> None:
    trace = Trace(array("d", [7.0, 7.03336, 7.0667]), array("d", [60.1234, math.nan, 61.0]))
    [back] = sampled_traces([json.loads(json.dumps({"kind": "survey", **samples_json(trace)})), {"kind": "look"}])
    assert list(back.rows()) == [(0.0, 60.123), (0.0334, None), (0.0667, 61.0)]


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
