"""How often jobs want to be polled, and who waits longer where not all can be."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from job_builders import NOW, make_progress, make_reports, receiver, sender

from fairlead.core.poll_wishes import UNHEARD_SECONDS, PollFacts, PollWish, facts_of, wish_of
from fairlead.core.reports import Reports

HOUR = 3600.0


@pytest.mark.parametrize(
    ("facts", "interval_seconds", "patience_seconds"),
    [
        (PollFacts(age_seconds=0.0), 3.0, 0.0),
        (PollFacts(age_seconds=5.0, awaits_decision=True), 1.0, 0.5),
        (PollFacts(age_seconds=60.0), 3.0, 6.0),
        (PollFacts(age_seconds=600.0), 3.0, 60.0),
        (PollFacts(age_seconds=HOUR), 3.0, 180.0),
        (PollFacts(age_seconds=100 * HOUR), 3.0, 180.0),
        (PollFacts(age_seconds=100 * HOUR, awaits_decision=True), 1.0, 180.0),
        (PollFacts(age_seconds=60.0, competes=True), 3.0, 6.0),
        (PollFacts(age_seconds=HOUR, competes=True), 3.0, 15.0),
        (PollFacts(age_seconds=HOUR, unheard_seconds=0.0), 3.0, 0.0),
        (PollFacts(age_seconds=HOUR, unheard_seconds=UNHEARD_SECONDS), 3.0, 180.0),
    ],
)
def test_the_older_a_job_the_longer_it_waits_unless_others_need_its_rate_or_it_has_fallen_silent(
    facts: PollFacts, interval_seconds: float, patience_seconds: float
) -> None:
    assert wish_of(facts, usual_seconds=3.0) == PollWish(interval_seconds, pytest.approx(patience_seconds))


@pytest.mark.parametrize(("unheard_seconds", "is_start"), [(None, True), (0.0, True), (UNHEARD_SECONDS, False)])
def test_a_job_whose_sender_waits_for_the_receivers_endpoint_comes_before_all_until_it_is_silent(
    unheard_seconds: float | None, is_start: bool
) -> None:
    facts = PollFacts(age_seconds=HOUR, unheard_seconds=unheard_seconds, awaits_endpoint=True)
    assert wish_of(facts, usual_seconds=3.0) == PollWish(3.0, 0.0 if is_start else 180.0, is_start)


def test_no_job_is_polled_more_rarely_as_its_advisor_has_not_decided() -> None:
    assert wish_of(PollFacts(age_seconds=0.0, awaits_decision=True), usual_seconds=0.2).interval_seconds == 0.2


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def test_a_job_is_as_old_as_the_younger_of_its_movers_by_when_that_became_ready() -> None:
    older, younger = replace(receiver(), ready_since=at(-500)), replace(sender(), ready_since=at(-20))
    assert facts_of([older, younger], Reports(), NOW, competes=False).age_seconds == 20.0
    assert facts_of([older], Reports(), NOW, competes=False).age_seconds == 500.0


@pytest.mark.parametrize("ready_since", [None, at(3600)])
def test_where_the_kubelet_does_not_tell_or_its_clock_is_ahead_the_pods_creation_counts(ready_since: datetime | None) -> None:
    pod = replace(receiver(), ready_since=ready_since, created_at=at(-70))
    assert facts_of([pod], Reports(), NOW, competes=False).age_seconds == 70.0


def test_what_the_movers_tell_decides_whether_the_decision_is_awaited_and_who_is_silent() -> None:
    undecided, decided = make_reports(make_progress(10), decided=False), make_reports(make_progress(10))
    pods = [receiver(), sender()]
    assert facts_of(pods, undecided, NOW, competes=True) == replace(facts_of(pods, decided, NOW, competes=True), awaits_decision=True)
    assert not facts_of([receiver()], undecided, NOW, competes=False).awaits_decision
    assert not facts_of([receiver()], decided, NOW, competes=False).awaits_endpoint
    assert not facts_of(pods, Reports(), NOW, competes=False).awaits_endpoint, "its transfer goes on, and a new leader has not asked yet"
    assert facts_of([receiver()], Reports(), NOW, competes=False).awaits_endpoint
    silent = replace(decided, receiver_unheard_seconds=4.0, advisor_unheard_seconds=9.0)
    assert facts_of(pods, silent, NOW, competes=False).unheard_seconds == 4.0, "news, however long the other has been silent"
    half = Reports(endpoint_unheard_seconds=5.0)
    assert facts_of([receiver()], half, NOW, competes=False).unheard_seconds == 5.0
