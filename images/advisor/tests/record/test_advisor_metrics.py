"""Every metric of the sidecar, by its value after what is known to have happened."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fairlead_advisor.decide.background import Background
from fairlead_advisor.decide.model import Alternative, Decision, DecisionReason, PathMeasurement
from fairlead_advisor.decide.optimizer import CountScore, CountTrial, Observation
from fairlead_advisor.probe.session import Counters
from fairlead_advisor.probe.summary import Summary
from fairlead_advisor.record.metrics import ADVISOR_METRICS, AdvisorMetrics
from fairlead_advisor.record.published import Published

PROBABILITIES = {"B0-C0": 0.05, "B0-C1": 0.05, "B1-C0": 0.8, "B1-C1": 0.05, "B1-B1": 0.03, "C1-C1": 0.02}
DECISION = Decision(
    "cubic",
    6,
    abstained=False,
    reason=DecisionReason.CLASSIFIED,
    message="",
    background=Background(PROBABILITIES, any_bbr=0.88, confidence=0.88, abstained=False, model="background-1.2.0"),
    utility=-0.4,
    rejected=(Alternative("bbr", -0.1, "not offered"), Alternative("reno", None, "not weighed")),
)
PUBLISHED = Published(PathMeasurement(0.06, 0.05, 0.0, 100), DECISION, datetime(2026, 1, 1, tzinfo=UTC), applied=False)


def values(metrics: AdvisorMetrics) -> Mapping[tuple[str, frozenset[tuple[str, str]]], float]:
    families = text_string_to_metric_families(metrics.exposition().decode())
    return {(sample.name, frozenset(sample.labels.items())): sample.value for family in families for sample in family.samples}


def test_every_metric_has_the_value_of_what_happened() -> None:
    metrics = AdvisorMetrics()
    metrics.probed(Summary(100, 98, 0.02, 60.0, 50.0, 61.0, 70.0, 1.5), Counters(foreign=1, duplicate=2, late=3))
    metrics.decided(PUBLISHED)
    metrics.decided(replace(PUBLISHED, applied=True))
    metrics.transfer(6, (0.25, 0.75))
    metrics.observed(Observation(10.0, 1.0, 6, 80e6, 0.001, 0.5))
    metrics.held_back(0.25, 0.125)
    base, tried = CountScore(4, 1e6, 0.0, None, 5.0), CountScore(6, 2e6, 0.0, None, 5.0)
    metrics.tried(CountTrial(tried, base, 6, "more"))
    metrics.tried(CountTrial(tried, base, 4, "no more"))
    metrics.paused_probe(12.5, "news")
    metrics.switched("bbr", undo=False)
    expected: dict[str, list[tuple[dict[str, str], float]]] = {
        "rtt_seconds": [({}, 0.06)],
        "rtt_minimum_seconds": [({}, 0.05)],
        "jitter_seconds": [({}, 0.0015)],
        "loss_ratio": [({}, 0.02)],
        "probes_sent_total": [({}, 100)],
        "probes_received_total": [({}, 98)],
        "datagrams_ignored_total": [({"cause": "foreign"}, 1), ({"cause": "duplicate"}, 2), ({"cause": "late"}, 3)],
        "decision_info": [({"protocol": "TCP", "congestion_control": "cubic", "reason": "Classified", "abstained": "false"}, 1)],
        "decisions_total": [({"reason": "Classified", "background": "B1-C0"}, 1)],
        "decision_confidence_ratio": [({}, 0.88)],
        "decision_regret_ratio": [({}, 0.3)],
        "background_probability_ratio": [({"background": name}, value) for name, value in PROBABILITIES.items()],
        "decision_streams": [({}, 6)],
        "decision_applied": [({}, 1)],
        "mover_up": [({}, 1)],
        "transfer_rtt_seconds": [({}, 0.5)],
        "transfer_streams": [({}, 6)],
        "transfer_goodput_bytes_per_second": [({}, 10e6)],
        "transfer_loss_ratio": [({}, 0.001)],
        "path_busy_ratio": [({}, 0.5)],
        "transfer_held_back_ratio": [({"by": "send_buffer"}, 0.25), ({"by": "receive_window"}, 0.125)],
        "stream_trials_total": [({"outcome": "kept"}, 1), ({"outcome": "reverted"}, 1)],
        "looks_total": [({"outcome": "news"}, 1)],
        "quiet_seconds_total": [({}, 12.5)],
        "switches_total": [({"to": "bbr", "undo": "false"}, 1)],
    }
    found = values(metrics)
    assert {name for name, _ in found if name.startswith("fairlead")} == {described.full_name for described in ADVISOR_METRICS}
    for name, samples in expected.items():
        for labels, value in samples:
            assert found[f"fairlead_advisor_{name}", frozenset(labels.items())] == pytest.approx(value), name
    assert expected.keys() == {described.name for described in ADVISOR_METRICS}


def test_what_may_be_counted_is_at_nought_before() -> None:
    """Prometheus sees no increase in a counter's first sample."""
    found = values(AdvisorMetrics())
    for name, labels in (
        ("datagrams_ignored_total", {"cause": "late"}),
        ("stream_trials_total", {"outcome": "reverted"}),
        ("looks_total", {"outcome": "failed"}),
        ("switches_total", {"to": "bbr", "undo": "true"}),
        ("quiet_seconds_total", {}),
    ):
        assert found[f"fairlead_advisor_{name}", frozenset(labels.items())] == 0, name


def test_the_best_choice_leaves_nothing_to_regret_and_without_utilities_it_is_not_known() -> None:
    metrics = AdvisorMetrics()
    metrics.decided(replace(PUBLISHED, decision=replace(DECISION, utility=-0.05)))
    regret = ("fairlead_advisor_decision_regret_ratio", frozenset[tuple[str, str]]())
    assert values(metrics)[regret] == 0
    metrics.decided(replace(PUBLISHED, decision=replace(DECISION, utility=None)))
    assert values(metrics)[regret] != values(metrics)[regret]
