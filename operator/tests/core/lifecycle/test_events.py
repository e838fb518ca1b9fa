"""An event is short: what is cut off stands in the condition that it is about."""

from __future__ import annotations

import pytest

from fairlead.core.lifecycle.events import LONGEST_EVENT, brief

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
