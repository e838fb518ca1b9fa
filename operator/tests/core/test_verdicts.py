"""Which mover's verdict proves success, and which that the partial files are gone."""

from __future__ import annotations

from job_builders import UID, cleaner, make_failure, make_verdict, receiver, sender

from fairlead.core.verdicts import has_cleaned, proven_success


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
