"""An event is news, and short: what is cut off stands in the condition that it is about."""

from __future__ import annotations

import pytest
from job_builders import NOW

from fairlead.api.shared.fields import Condition
from fairlead.api.transferjob import TransferJobStatus
from fairlead.core.lifecycle.events import LONGEST_EVENT, brief, events_between

WORDS = "the sender found no route to the receiver "
SENTENCE = "attempt 2 failed; "


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("attempt 1 failed: no route", "attempt 1 failed: no route"),
        ("x" * LONGEST_EVENT, "x" * LONGEST_EVENT),
        ("one line\n  and another\r\n\tone\u2028", "one line and another one"),
        (SENTENCE * 20, f"{(SENTENCE * 16).rstrip('; ')}…"),
        (f"{'y' * 200}. {WORDS * 10}", f"{'y' * 200}…"),
        # A sentence that ends early says too little.
        (f"it failed. {'z' * 180} {'w' * 200}", f"it failed. {'z' * 180}…"),
        ("v" * 1024, f"{'v' * (LONGEST_EVENT - 1)}…"),
    ],
    ids=["short", "as long as may be", "several lines", "sentences", "a sentence and words", "a short sentence", "no words"],
)
def test_a_message_is_one_line_cut_behind_a_sentence_or_a_word(message: str, said: str) -> None:
    assert brief(message) == said
    assert len(said) <= LONGEST_EVENT


@pytest.mark.parametrize(("before", "events"), [(None, []), ("False", ["Accepted"]), ("True", [])])
def test_that_a_job_can_run_is_news_where_it_could_not_before(before: str | None, events: list[str]) -> None:
    def told(status: str) -> TransferJobStatus:
        condition = {"type": "Accepted", "status": status, "reason": "Valid", "message": "", "lastTransitionTime": NOW}
        return TransferJobStatus(conditions=(Condition.model_validate(condition),))

    found = events_between(TransferJobStatus() if before is None else told(before), told("True"))
    assert [event.reason for event in found] == events
