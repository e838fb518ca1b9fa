"""Alerts, their tests and their runbooks are the same, and rules rest on metrics that exist."""

from __future__ import annotations

import pytest

from fairlead_dev import monitoring
from fairlead_dev.metrics import documented


def test_every_alert_has_a_test_that_sees_it_fire_and_a_runbook() -> None:
    assert len(monitoring.alerts()) >= 7
    assert monitoring.alerts() == monitoring.tested_alerts() == monitoring.runbooks()


@pytest.mark.parametrize("rule", monitoring.rules(), ids=lambda rule: rule.get("alert") or rule["record"])
def test_rules_rest_on_metrics_and_labels_that_are_documented(rule: dict[str, str]) -> None:
    named = monitoring.metrics_in(rule["expr"])
    assert named <= documented().keys()
    assert named or "fairlead:" in rule["expr"]


def test_every_alert_says_how_severe_it_is_and_where_its_runbook_is() -> None:
    for rule in monitoring.rules():
        if "alert" in rule:
            assert rule["labels"]["severity"] in ("critical", "warning", "info")
            assert rule["annotations"]["runbook_url"] == f"RUNBOOKS/{rule['alert']}"


def test_recorded_series_are_named_for_us() -> None:
    assert all(rule["record"].startswith("fairlead:") and rule["record"].count(":") == 2 for rule in monitoring.rules() if "record" in rule)
