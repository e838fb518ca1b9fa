from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fairlead.core.lifecycle.unreadable import conditions_after, is_held, stand_in

NOW = datetime(2026, 1, 1, 12, 0, 0, 500, tzinfo=UTC)
READY = {"type": "MoversReady", "status": "True", "reason": "MoversRunning", "message": "up", "lastTransitionTime": "2026-01-01T00:00:00Z"}


def _body(**status: Any) -> dict[str, Any]:
    metadata = {"name": "job", "namespace": "lab", "uid": "u", "resourceVersion": "1", "generation": 3}
    return {"metadata": metadata | {"creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"a": 1}, "status": status}


@pytest.mark.parametrize("status", [{}, {"conditions": "none"}, {"conditions": [7, {"type": "odd"}]}, {"conditions": [READY]}])
def test_it_is_told_what_is_wrong_and_keeps_what_can_be_read(status: dict[str, Any]) -> None:
    told = conditions_after(_body(**status), "spec.a: what is that", NOW)
    assert told is not None
    by_type = {each["type"]: each for each in told}
    assert set(by_type) == {"Accepted", "Reconciling", "Stalled"} | ({"MoversReady"} if status.get("conditions") == [READY] else set())
    assert "spec.a: what is that" in by_type["Accepted"]["message"]
    assert by_type["Stalled"]["observedGeneration"] == 3
    again = _body(conditions=told)
    assert conditions_after(again, "spec.a: what is that", NOW + timedelta(hours=1)) is None
    other = conditions_after(again, "spec.b: and that", NOW + timedelta(hours=1))
    assert other is not None
    assert {each["lastTransitionTime"] for each in other if each["type"] == "Accepted"} == {"2026-01-01T12:00:00Z"}


@pytest.mark.parametrize(
    ("metadata", "held"),
    [
        ({}, False),
        ({"finalizers": ["fairlead.io/partial-files"]}, False),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["another"]}, False),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["fairlead.io/partial-files"]}, True),
    ],
)
def test_its_deletion_waits_for_the_operator_only_with_its_finalizer(metadata: dict[str, Any], held: bool) -> None:
    body = _body()
    body["metadata"] |= metadata
    assert is_held(body) is held
    assert stand_in(body).metadata.uid == "u"
