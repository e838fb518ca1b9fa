"""Which mover's verdict proves success, and which that the partial files are gone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from job_builders import UID, cleaner, make_failure, make_job, make_verdict, receiver, sender

from fairlead.core.verdicts import failure_of_attempt, has_cleaned, proven_success


class TestVerdicts:
    def test_success_is_the_receivers_to_claim(self) -> None:
        assert proven_success(receiver(verdict=make_verdict()), UID)
        assert proven_success(sender(verdict=make_verdict()), UID) is None
        assert proven_success(receiver(), UID) is None
        assert proven_success(None, UID) is None
        assert proven_success(receiver(attempt=2, verdict=make_verdict(attempt=1)), UID) is None
        assert proven_success(receiver(verdict=make_failure("PeerLost", retry=True)), UID) is None

    def test_only_a_cleaner_cleans(self) -> None:
        said = make_verdict(reason="Cleaned", attempt=0)
        assert not has_cleaned(receiver(verdict=said), UID)
        assert has_cleaned(cleaner(verdict=said), UID)
        assert not has_cleaned(cleaner(verdict=make_verdict(reason="Cleaned", job="another")), UID)
        assert not has_cleaned(cleaner(verdict=make_failure("DestinationUnwritable", retry=True)), UID)

    @pytest.mark.parametrize(
        ("at_source", "at_destination", "reason", "named"),
        [
            ("SourceMissing", "DestinationUnwritable", "SourceMissing", ["SourceMissing", "DestinationUnwritable"]),
            ("PeerFailed", "DestinationUnwritable", "DestinationUnwritable", ["DestinationUnwritable"]),
            ("InterfaceDown", "DestinationUnwritable", "DestinationUnwritable", ["DestinationUnwritable", "InterfaceDown"]),
        ],
    )
    def test_what_went_wrong_at_both_ends_is_all_told_the_cause_first(
        self, at_source: str, at_destination: str, reason: str, named: list[str]
    ) -> None:
        """What a retry may cure is told after what it cannot cure; what only says that the other end failed is left out."""
        said = {name: make_failure(name, retry=name in ("PeerFailed", "InterfaceDown")) for name in (at_source, at_destination)}
        said = {name: replace(verdict, message=f"it was {name}") for name, verdict in said.items()}
        pods = (sender(verdict=said[at_source]), receiver(verdict=said[at_destination]))
        failure = failure_of_attempt(pods, (), {}, make_job())
        assert failure is not None
        assert failure.reason == reason
        assert [part.split("it was ")[-1] for part in failure.message.split("; also ")] == named
