"""The run that a Prometheus watches: which panel is answered for which of its jobs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from e2e.lib.policy import rate_bps
from e2e.lib.watched import ASTRO, CAPACITY, JOBS, KNOWN, OTHER_SUBJECTS, TRANSFERS, by_weight, chosen, crowded, unanswered

from fairlead_dev.boards.answers import BoardAnswers, TimeWindow
from fairlead_dev.boards.files import FOLDER
from fairlead_dev.boards.reading import load, queries, variables
from fairlead_dev.checkout import CHECKOUT

BOARDS = load(CHECKOUT / FOLDER)
NUMBER: list[dict[str, Any]] = [{"metric": {}, "values": [[1, "1"]]}]
Place = tuple[str, str, str]
"""A query by board, panel and letter."""


def answers(has_number: Callable[[Place], bool]) -> BoardAnswers:
    found: dict[str, dict[str, dict[str, list[dict[str, Any]]]]] = {}
    for board in BOARDS:
        for query in queries(board):
            answer = NUMBER if has_number((query.board, query.panel, query.ref)) else []
            found.setdefault(board["uid"], {}).setdefault(str(query.panel_id), {})[query.ref] = answer
    return BoardAnswers(TimeWindow(0, 1, 1), {}, found)


def is_about(job: str, place: Place) -> bool:
    subject = OTHER_SUBJECTS.get(place)
    return job in TRANSFERS if subject is None else job == subject


def answers_of_a_run() -> dict[str, BoardAnswers]:
    """Each job has data in the panels that are about it, and in no other."""
    return {job: answers(partial(is_about, job)) for job in JOBS}


def test_each_panel_counts_for_the_job_that_it_is_about() -> None:
    assert unanswered(BOARDS, answers_of_a_run()) == []


def test_one_of_the_two_transfers_is_enough() -> None:
    by_job = answers_of_a_run()
    by_job["sky"] = answers(lambda _: False)
    assert unanswered(BOARDS, by_job) == []


def test_a_query_without_data_for_its_job_is_named_with_the_job() -> None:
    by_job = answers_of_a_run()
    confidence = ("Fairlead / Decisions", "Confidence", "A")
    for job in TRANSFERS:
        by_job[job] = answers(lambda place: place not in OTHER_SUBJECTS and place != confidence)
    by_job["waiting"] = answers(lambda place: place[1] != "Jobs that wait")
    found = [text.partition(": ")[0] for text in unanswered(BOARDS, by_job)]
    assert found == [
        "Fairlead / Decisions, Confidence, A, for sky or assembly",
        "Fairlead / Fairness, Jobs that wait, A, for waiting",
    ]


def test_exceptions_are_queries_that_exist() -> None:
    assert OTHER_SUBJECTS.keys() <= {(query.board, query.panel, query.ref) for board in BOARDS for query in queries(board)}


@pytest.mark.parametrize("job", JOBS)
def test_a_job_is_chosen_by_every_variable_of_every_board(job: str) -> None:
    assert chosen(job).keys() == {name for board in BOARDS for name in variables(board)}


def test_the_jobs_with_known_counters_are_of_a_tenant_that_has_a_share() -> None:
    (astro,) = (each for each in by_weight()["spec"]["tenants"] if each["name"] == ASTRO)
    (requirement,) = astro["namespaceSelector"]["matchExpressions"]
    assert requirement["values"] == [ASTRO, KNOWN]


def test_the_first_policy_promises_more_than_the_link_has_and_the_second_nothing() -> None:
    assert sum(rate_bps(tenant["guarantee"]) for tenant in crowded()["spec"]["tenants"]) > rate_bps(CAPACITY)
    assert [tenant for tenant in by_weight()["spec"]["tenants"] if "guarantee" in tenant] == []
