"""Every reason that a job can have is said in words."""

from __future__ import annotations

import pytest

from fairlead.api.reasons import MoverReason, Reason
from fairlead.commands.sayings import CONDITIONS, FINDINGS, MOVERS, PODS, Finding, saying_of


def test_every_reason_has_a_sentence_and_no_sentence_is_of_a_reason_that_there_is_not() -> None:
    assert set(CONDITIONS) == {reason.value for reason in Reason}
    assert set(MOVERS) == {reason.value for reason in MoverReason}
    assert set(FINDINGS) == {finding.value for finding in Finding}


@pytest.mark.parametrize("reason", sorted({*CONDITIONS, *MOVERS, *FINDINGS, *PODS}))
def test_a_sentence_completes_because_and_a_remedy_is_whole_sentences(reason: str) -> None:
    said = saying_of(reason)
    assert said.because and not said.because.endswith(".")
    assert said.because[0].islower() or said.because.startswith(("UDP", "Kueue", "Multus", "Fairlead")), said.because
    assert not said.remedy or said.remedy.endswith("."), said.remedy


def test_an_unknown_reason_is_named() -> None:
    assert "Surprise" in saying_of("Surprise").because
