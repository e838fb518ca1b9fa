"""What of the reports goes into the status, and which change of it deserves a write."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from job_builders import LASTING_STAGES, NOW, SETTINGS, make_progress, make_reports, receiver, seconds

from fairlead.api.shared.fields import Condition, ConditionStatus
from fairlead.api.transferjob import TransferJobStatus
from fairlead.api.transferjob.status import MOST_ALTERNATIVES, MOST_SWITCHES, BandwidthStatus, ProgressStatus
from fairlead.core.reports import DecisionReport, MoverEndpoint, Rejected, Reports, SwitchReport
from fairlead.core.status import decision_of, endpoints_of, is_progress_alone, progress_of, written_in


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

    @pytest.mark.parametrize("rate", [5e-324, 1e-300, 1e-6])
    def test_a_rate_that_never_gets_there_has_no_end_in_sight(self, rate: float) -> None:
        progress = progress_of(make_reports(make_progress(0, 2**60, rate=rate)), None, NOW)
        assert progress is not None
        assert progress.eta is None

    def test_an_empty_transfer_is_complete(self) -> None:
        progress = progress_of(make_reports(make_progress(0, 0)), None, NOW)
        assert progress is not None
        assert progress.percent == 100

    def test_the_time_of_progress_stands_still_while_no_byte_moves(self) -> None:
        before = progress_of(make_reports(make_progress(10)), None, NOW)
        stuck = progress_of(make_reports(make_progress(10)), before, NOW + seconds(60))
        assert stuck is not None
        assert stuck.last_progress_time == NOW

    def test_progress_was_made_when_it_was_reported_however_late_a_pass_takes_it(self) -> None:
        before = progress_of(make_reports(make_progress(10)), None, NOW)
        reports = replace(make_reports(make_progress(20)), receiver_age_seconds=40.5)
        later = progress_of(reports, before, NOW + seconds(60))
        assert later is not None
        assert later.last_progress_time == NOW + seconds(19)


def test_where_an_end_runs_stays_known_while_its_mover_does_not_answer() -> None:
    told = Reports(receiver_endpoint=MoverEndpoint("data0", "198.19.0.2", 24000, numa_node=1, cpus="8-15,24-31"))
    before = endpoints_of(None, None, receiver(), told)
    assert before is not None
    assert before.destination is not None
    assert (before.destination.numa_node, before.destination.cpus) == (1, "8-15,24-31")
    assert endpoints_of(before, None, receiver(), Reports()) == before
    unpinned = endpoints_of(before, None, receiver(), Reports(receiver_endpoint=replace(told.receiver_endpoint, cpus=None)))
    assert unpinned is not None
    assert unpinned.destination is not None
    assert unpinned.destination.cpus is None


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
        assert written_in(self.BEFORE, self.with_percent(percent), NOW + seconds(elapsed), SETTINGS) == (timedelta() if worth else None)

    @pytest.mark.parametrize(("reported", "worth"), [(9, False), (10, True)])
    def test_progress_of_a_late_pass_waits_until_its_report_is_ten_seconds_newer(self, reported: int, worth: bool) -> None:
        progress = ProgressStatus(percent=11, bytes_transferred=110, last_progress_time=NOW + seconds(reported))
        after = self.BEFORE.model_copy(update={"progress": progress})
        assert written_in(self.BEFORE, after, NOW + seconds(12), SETTINGS) == (timedelta() if worth else None)

    def test_anything_else_is_news_at_once(self) -> None:
        after = self.with_percent(10).model_copy(update={"attempts": 2})
        assert written_in(self.BEFORE, after, NOW, SETTINGS) == timedelta()

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

        assert written_in(with_cap(before), with_cap(after), NOW + seconds(elapsed), SETTINGS) == (timedelta() if worth else None)

    def test_what_bounds_the_cap_waits_for_progress_while_the_cap_itself_stays(self) -> None:
        def bounded(bottleneck: str, percent: int, allocated: str = "100M") -> TransferJobStatus:
            bandwidth = BandwidthStatus(allocated=allocated, bound_by="Link", bottleneck=bottleneck)
            return self.with_percent(percent).model_copy(update={"bandwidth": bandwidth})

        before = bounded("out", 10)
        assert written_in(before, bounded("in", 10), NOW + seconds(60), SETTINGS) is None
        assert written_in(before, bounded("in", 11), NOW + seconds(60), SETTINGS) == timedelta()
        assert written_in(before, bounded("in", 10, "50M"), NOW, SETTINGS) == timedelta()

    @pytest.mark.parametrize(
        ("kind", "before", "after", "elapsed", "wait"),
        [
            ("MoversReady", "False/A", "False/B", 0.5, 4.5),
            ("MoversReady", "False/A", "False/B", 5, 0),
            ("MoversReady", "False/MoversStarting", "False/SenderNotReady", 0, 0),
            ("MoversReady", "False/SenderNotReady", "False/MoversStarting", 0, 0),
            ("MoversReady", "False/A", "False/B", -60, 0),
            ("MoversReady", "False/A", "True/B", 0.5, 4.5),
            ("MoversReady", "False/SenderNotReady", "True/A", 0, 0),
            ("PathProbed", "False/A", "True/B", 0, 0),
            ("PathProbed", "True/A", "True/B", 0, 5),
            ("Scheduled", "False/WaitingForScheduler", "True/PodsScheduled", 0, 5),
            ("Scheduled", "False/NoSlotFree", "True/PodsScheduled", 0, 0),
            ("Stalled", "False/A", "False/B", 0, 5),
            ("Stalled", "False/A", "True/B", 0, 0),
            ("Stalled", "True/A", "True/B", 0, 0),
            ("Suspended", "False/A", "False/B", 0, 0),
        ],
    )
    def test_a_stage_is_written_once_the_one_before_has_lasted_unless_later_passes_rest_on_it(
        self, kind: str, before: str, after: str, elapsed: float, wait: float
    ) -> None:
        def told(text: str) -> TransferJobStatus:
            status, reason = text.split("/")
            condition = {"type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": NOW}
            return self.BEFORE.model_copy(update={"conditions": (Condition.model_validate(condition),)})

        assert written_in(told(before), told(after), NOW + seconds(elapsed), LASTING_STAGES) == seconds(wait)

    @pytest.mark.parametrize(("created", "elapsed", "wait"), [(-60, 5, 0), (3, 4, 4), (3, 8, 0), (60, 8, 0)])
    def test_a_stage_has_lasted_since_the_youngest_mover_was_created_with_which_it_was_written(
        self, created: float, elapsed: float, wait: float
    ) -> None:
        def told(reason: str) -> TransferJobStatus:
            condition = {"type": "MoversReady", "status": "False", "reason": reason, "message": "", "lastTransitionTime": NOW}
            return self.BEFORE.model_copy(update={"conditions": (Condition.model_validate(condition),)})

        now, youngest = NOW + seconds(elapsed), NOW + seconds(created)
        assert written_in(told("A"), told("B"), now, LASTING_STAGES, youngest) == seconds(wait)

    def test_what_is_progress_alone(self) -> None:
        moved = self.with_percent(11)
        below, above = (
            Condition(type="CapEnforced", status=status, reason="AboveCap", message="", last_transition_time=NOW)
            for status in ("True", "False")
        )
        assert is_progress_alone(self.BEFORE, moved)
        assert is_progress_alone(self.BEFORE, moved.model_copy(update={"conditions": (below,)}))
        assert not is_progress_alone(self.BEFORE, moved.model_copy(update={"conditions": (above,)}))
        assert not is_progress_alone(self.BEFORE, moved.model_copy(update={"attempts": 2}))
        assert not is_progress_alone(self.BEFORE, self.BEFORE)
        assert not is_progress_alone(TransferJobStatus(), moved)

    def test_nothing_new_is_not_written(self) -> None:
        assert written_in(self.BEFORE, self.BEFORE, NOW + seconds(3600), SETTINGS) is None


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
    told = decision_of(report, None, None).to_object()
    assert told["anyBBR"] == "0.97"
    assert told["alternatives"][0] == {"congestionControl": "cubic", "whyNot": "less use"}
    assert len(told["alternatives"]) == MOST_ALTERNATIVES
    assert [switch["time"] for switch in told["switches"]] == [f"{at:%Y-%m-%dT%H:%M:%SZ}" for at in times[-MOST_SWITCHES:]]
    assert told["switches"][0] | {"time": ""} == {"time": "", "from": "cubic", "to": "bbr", "why": "BBR came"}
    later = decision_of(
        replace(report, switches=(SwitchReport(NOW + timedelta(hours=1), "bbr", "cubic", "BBR left"),)),
        decision_of(report, None, None),
        None,
    )
    assert [switch.to for switch in later.switches] == ["bbr"] * (MOST_SWITCHES - 1) + ["cubic"]
    assert decision_of(replace(report, switches=()), later, None).switches == later.switches
    assert decision_of(report, None, "QUIC").protocol == "QUIC"
