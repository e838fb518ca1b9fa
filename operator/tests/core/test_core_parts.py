"""The small parts that decisions are made of: conditions, pauses, ports, verdicts and what deserves a write."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from job_builders import NOW, UID, cleaner, make_failure, make_progress, make_reports, make_verdict, receiver, seconds, sender

from fairlead.api.reasons import ConditionType
from fairlead.api.shared.fields import LONGEST_MESSAGE, Condition, ConditionStatus
from fairlead.api.transferjob import TransferJobStatus
from fairlead.api.transferjob.status import MOST_ALTERNATIVES, MOST_SWITCHES, ProgressStatus
from fairlead.core.conditions import Conditions
from fairlead.core.ports import BLOCK, choose_port_base, taken_on
from fairlead.core.reports import DecisionReport, Rejected, Reports, SwitchReport
from fairlead.core.settings import delay_after
from fairlead.core.status import decision_of, is_worth_writing, progress_of
from fairlead.core.verdicts import has_cleaned, proven_success

FIRST, MOST = timedelta(seconds=10), timedelta(minutes=5)


class TestConditions:
    def test_the_transition_time_moves_only_when_the_status_flips(self) -> None:
        conditions = Conditions((), generation=1, now=NOW)
        conditions.set(ConditionType.ACCEPTED, "False", "ClaimNotFound", "no claim")
        later = Conditions(conditions.build(), generation=2, now=NOW + seconds(5))
        later.set(ConditionType.ACCEPTED, "False", "NodeNotFound", "no node")
        kept = later.build()[0]
        assert (kept.last_transition_time, kept.reason, kept.observed_generation) == (NOW, "NodeNotFound", 2)
        flipped = Conditions(later.build(), generation=2, now=NOW + seconds(9))
        flipped.set(ConditionType.ACCEPTED, "True", "Valid", "fine")
        assert flipped.build()[0].last_transition_time == NOW + seconds(9)

    def test_changing_its_mind_within_a_pass_leaves_no_trace(self) -> None:
        first = Conditions((), generation=1, now=NOW)
        first.set(ConditionType.SCHEDULED, "False", "NoPortFree", "full")
        again = Conditions(first.build(), generation=1, now=NOW + seconds(5))
        again.set(ConditionType.SCHEDULED, "True", "PodsScheduled", "placed")
        again.set(ConditionType.SCHEDULED, "False", "NoPortFree", "full")
        assert again.build() == first.build()

    def test_order_is_that_of_the_documentation_and_foreign_conditions_stay(self) -> None:
        conditions = Conditions((), generation=1, now=NOW)
        conditions.set(ConditionType.STALLED, "False", "Valid", "")
        conditions.set(ConditionType.ACCEPTED, "True", "Valid", "")
        foreign = conditions.build()[0].model_copy(update={"type": "example.com/Own"})
        mixed = Conditions((foreign, *conditions.build()), generation=1, now=NOW)
        assert [condition.type for condition in mixed.build()] == ["Accepted", "Stalled", "example.com/Own"]

    def test_a_message_has_a_bounded_length(self) -> None:
        conditions = Conditions((), generation=1, now=NOW)
        conditions.set(ConditionType.FAILED, "True", "InternalError", "x" * 5000)
        assert len(conditions.build()[0].message) == LONGEST_MESSAGE


class TestBackoff:
    @pytest.mark.parametrize(("failures", "pause"), [(0, 10), (1, 10), (2, 20), (3, 40), (5, 160), (6, 300), (100, 300), (10**9, 300)])
    def test_the_pause_doubles_up_to_its_bound(self, failures: int, pause: int) -> None:
        assert delay_after(failures, first=FIRST, most=MOST) == seconds(pause)


class TestPorts:
    def test_the_same_seed_gives_the_same_block_and_another_attempt_usually_another(self) -> None:
        chosen = [choose_port_base(f"{UID}/{attempt}/receiver", frozenset(), first=24000, last=25999) for attempt in (1, 1, 2, 3, 4)]
        assert chosen[0] == chosen[1]
        assert len(set(chosen)) >= 3

    @given(seed=st.text(), taken=st.sets(st.integers(0, 24).map(lambda block: 24000 + BLOCK * block)))
    def test_a_block_is_free_and_within_the_range_or_there_is_none(self, seed: str, taken: set[int]) -> None:
        base = choose_port_base(seed, taken, first=24000, last=24099)
        if len(taken) == 25:
            assert base is None
        else:
            assert base is not None
            assert base not in taken
            assert 24000 <= base <= 24099 - BLOCK + 1
            assert (base - 24000) % BLOCK == 0

    def test_a_range_smaller_than_a_block_has_no_port(self) -> None:
        assert choose_port_base("x", frozenset(), first=24000, last=24002) is None

    def test_pods_without_a_node_count_on_every_node_and_a_pod_without_a_node_avoids_all(self) -> None:
        in_use = {"dtn-a": frozenset({1}), "dtn-b": frozenset({2}), "": frozenset({3})}
        assert taken_on("dtn-a", in_use) == {1, 3}
        assert taken_on(None, in_use) == {1, 2, 3}
        assert taken_on("dtn-c", {}) == frozenset()


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


class TestProgress:
    def test_totals_come_from_the_sender_until_the_receiver_has_them(self) -> None:
        reports = Reports(receiver=make_progress(10, None), sender=make_progress(0, 500))
        progress = progress_of(reports, None, NOW)
        assert progress is not None
        assert (progress.bytes_total, progress.percent) == (500, 2)

    def test_without_totals_there_is_no_percentage_and_no_end_in_sight(self) -> None:
        progress = progress_of(make_reports(make_progress(10, None)), None, NOW)
        assert progress is not None
        assert (progress.percent, progress.eta) == (None, None)

    @pytest.mark.parametrize(("done", "percent"), [(0, 0), (9, 0), (10, 1), (999, 99), (1000, 100), (1001, 100)])
    def test_a_hundred_per_cent_means_everything(self, done: int, percent: int) -> None:
        progress = progress_of(make_reports(make_progress(done)), None, NOW)
        assert progress is not None
        assert progress.percent == percent

    def test_rate_is_in_bits_and_time_left_follows_from_it(self) -> None:
        progress = progress_of(make_reports(make_progress(1_000_000, 101_000_000, rate=1e6)), None, NOW)
        assert progress is not None
        assert (progress.rate, progress.eta) == ("8M", "1m40s")

    def test_an_empty_transfer_is_complete(self) -> None:
        progress = progress_of(make_reports(make_progress(0, 0)), None, NOW)
        assert progress is not None
        assert progress.percent == 100

    def test_the_time_of_progress_stands_still_while_no_byte_moves(self) -> None:
        before = progress_of(make_reports(make_progress(10)), None, NOW)
        stuck = progress_of(make_reports(make_progress(10)), before, NOW + seconds(60))
        assert stuck is not None
        assert stuck.last_progress_time == NOW


class TestWriting:
    BEFORE = TransferJobStatus(attempts=1, progress=ProgressStatus(percent=10, bytes_transferred=100, last_progress_time=NOW))

    def with_percent(self, percent: int) -> TransferJobStatus:
        return self.BEFORE.model_copy(update={"progress": ProgressStatus(percent=percent, bytes_transferred=percent * 10, rate="1M")})

    @pytest.mark.parametrize(
        ("percent", "elapsed", "worth"),
        [(11, 60, True), (11, 11, True), (11, 10, False), (99, 9, False), (10, 3600, False)],
        ids=["moved, long ago", "just due", "the cut-off second", "much, but too soon", "only the rate changed"],
    )
    def test_progress_alone(self, percent: int, elapsed: int, worth: bool) -> None:
        assert is_worth_writing(self.BEFORE, self.with_percent(percent), NOW + seconds(elapsed), seconds(10)) is worth

    def test_anything_else_is_news_at_once(self) -> None:
        after = self.with_percent(10).model_copy(update={"attempts": 2})
        assert is_worth_writing(self.BEFORE, after, NOW, seconds(10))

    @pytest.mark.parametrize(
        ("before", "after", "elapsed", "worth"),
        [("Unknown", "True", 3, False), ("False", "True", 3, False), ("False", "True", 11, True), ("True", "False", 3, True)],
    )
    def test_that_the_cap_is_not_kept_is_news_at_once_and_that_it_is_no_more_urgent_than_progress(
        self, before: ConditionStatus, after: ConditionStatus, elapsed: int, worth: bool
    ) -> None:
        def with_cap(status: ConditionStatus) -> TransferJobStatus:
            condition = Condition(type="CapEnforced", status=status, reason="WithinCap", message="", last_transition_time=NOW)
            return self.BEFORE.model_copy(update={"conditions": (condition,)})

        assert is_worth_writing(with_cap(before), with_cap(after), NOW + seconds(elapsed), seconds(10)) is worth

    def test_nothing_new_is_not_written(self) -> None:
        assert not is_worth_writing(self.BEFORE, self.BEFORE, NOW + seconds(3600), seconds(10))


def test_pauses_never_shrink() -> None:
    pauses = [delay_after(failures, first=FIRST, most=MOST) for failures in range(1, 20)]
    assert all(earlier <= later for earlier, later in pairwise(pauses))


def test_the_status_tells_what_else_was_weighed_and_the_last_switches() -> None:
    times = [NOW + timedelta(minutes=minute) for minute in range(MOST_SWITCHES + 2)]
    report = DecisionReport(
        protocol="TCP",
        congestion_control="bbr",
        streams=4,
        abstained=False,
        reason="Classified",
        message="BBR is there",
        decided_at=NOW,
        any_bbr=0.97,
        rejected=tuple(Rejected(name, "less use") for name in ("cubic", "reno", "vegas", "illinois", "dctcp")),
        switches=tuple(SwitchReport(at, "cubic", "bbr", "BBR came") for at in times),
    )
    told = decision_of(report, None).to_object()
    assert told["anyBBR"] == "0.97"
    assert told["alternatives"][0] == {"congestionControl": "cubic", "whyNot": "less use"}
    assert len(told["alternatives"]) == MOST_ALTERNATIVES
    assert [switch["time"] for switch in told["switches"]] == [f"{at:%Y-%m-%dT%H:%M:%SZ}" for at in times[-MOST_SWITCHES:]]
    assert told["switches"][0] | {"time": ""} == {"time": "", "from": "cubic", "to": "bbr", "why": "BBR came"}
    later = decision_of(
        replace(report, switches=(SwitchReport(NOW + timedelta(hours=1), "bbr", "cubic", "BBR left"),)), decision_of(report, None)
    )
    assert [switch.to for switch in later.switches] == ["bbr"] * (MOST_SWITCHES - 1) + ["cubic"]
    assert decision_of(replace(report, switches=()), later).switches == later.switches
