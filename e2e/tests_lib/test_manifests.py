"""Jobs for tests are what a user would write, with the test's changes over it."""

from __future__ import annotations

from e2e.lib.manifests import merged, transfer_job


def test_mappings_are_merged_and_everything_else_is_replaced() -> None:
    base = {"a": {"b": 1, "c": [1, 2]}, "d": 4}
    assert merged(base, {"a": {"c": [3]}, "e": 5}) == {"a": {"b": 1, "c": [3]}, "d": 4, "e": 5}
    assert base == {"a": {"b": 1, "c": [1, 2]}, "d": 4}


def test_none_removes() -> None:
    assert merged({"a": {"b": 1, "c": 2}}, {"a": {"b": None}, "z": None}) == {"a": {"c": 2}}


def test_a_jobs_ends_keep_what_is_not_changed() -> None:
    spec = transfer_job("space", source={"path": "other"}, suspend=True)["spec"]
    assert spec["source"]["path"] == "other"
    assert spec["source"]["node"] == "dtn-a"
    assert spec["destination"]["path"] == "run42"
    assert spec["suspend"] is True
