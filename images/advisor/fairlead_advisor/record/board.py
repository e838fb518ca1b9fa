"""Publishes a decision: for the HTTP answer, in the metrics, the log and the record."""

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from fairlead_advisor.decide.loop.messages import ReportProbe
from fairlead_advisor.decide.model import Decision, PathMeasurement, TransferSummary
from fairlead_advisor.decide.optimizer import CountTrial
from fairlead_advisor.decide.switching import ControlSwitch, SwitchVerdict
from fairlead_advisor.probe.trace import Trace
from fairlead_advisor.record.journal import EntryKind, Journal
from fairlead_advisor.record.metrics import AdvisorMetrics
from fairlead_advisor.record.published import MOST_CHANGES, Changed, PausedProbes, Published, as_json, background_json, outcome_json
from fairlead_advisor.record.samples import samples_json

_log = logging.getLogger(__name__)


class DecisionBoard:
    """One job's decision; `published` is the current one."""

    def __init__(self, metrics: AdvisorMetrics, journal: Journal, now: Callable[[], datetime]) -> None:
        self.metrics = metrics
        self.published: Published | None = None
        self._journal = journal
        self._now = now

    def publish(self, path: PathMeasurement, decision: Decision, *, applied: bool, decided_at: datetime | None = None) -> None:
        """Publishes a decision; the time of the one before stays unless another is given."""
        before = self.published
        moment = decided_at or (before.decided_at if before else self._now())
        self.published = Published(
            path, decision, moment, applied, before.changes if before else (), looks=before.looks if before else PausedProbes()
        )
        self.metrics.decided(self.published)
        _log.info("%s; applied: %s", decision.message, "yes" if applied else "no")

    def record(self) -> None:
        """Puts the current decision on record as one of its own."""
        if self.published is not None:
            self._journal.decided(as_json(self.published))

    def tried(self, outcome: CountTrial) -> None:
        """A stream count was tried."""
        self.metrics.tried(outcome)
        _log.info("streams: %s", outcome.why)
        sides = {
            name: {
                "streams": score.streams,
                "goodput_bps": round(score.goodput_bps),
                "loss_ratio": round(score.loss_ratio, 6),
                "busy_ratio": None if score.busy_ratio is None else round(score.busy_ratio, 3),
            }
            for name, score in (("base", outcome.base), ("trial", outcome.tried))
        }
        body = {"from": outcome.base.streams, "tried": outcome.tried.streams, "kept": outcome.kept, "why": outcome.why}
        self._journal.followed(EntryKind.STREAMS, body | sides)
        if outcome.kept != outcome.base.streams:
            self._changed("streams", outcome.base.streams, outcome.kept, outcome.why)

    def switched(self, before: str, switch: ControlSwitch) -> None:
        """The congestion control of the live sockets was switched."""
        self.metrics.switched(switch.to, undo=switch.undo)
        _log.info("congestion control %s -> %s: %s", before, switch.to, switch.why)
        self._journal.followed(EntryKind.SWITCH, {"from": before, "to": switch.to, "undo": switch.undo, "why": switch.why})
        self._changed("congestion_control", before, switch.to, switch.why)

    def surveyed(self, trace: Trace) -> None:
        """The path was sampled without own data: the samples go on record, for training."""
        if len(trace):
            self._journal.followed(EntryKind.SURVEY, samples_json(trace))

    def probed(self, probe: ReportProbe) -> None:
        """Data were held back for a paused probe."""
        self.metrics.paused_probe(
            probe.paused_s, "news" if probe.news else "sure" if probe.sure else "unsure" if probe.background else "failed"
        )
        body = {"why": probe.why, "story": probe.story, "quiet_seconds": round(probe.paused_s, 2), "sure": probe.sure, "news": probe.news}
        body |= {"failure": probe.failure or None, **background_json(probe.background)}
        _log.info("quiet look of %.1f s (%s): %s", probe.paused_s, probe.story, probe.failure or body["background"])
        self._journal.followed(EntryKind.LOOK, body)
        if self.published is not None:
            looks = self.published.looks
            added = PausedProbes(looks.count + 1, looks.quiet_s + probe.paused_s, self._now())
            self.published = replace(self.published, looks=added)

    def proved(self, verdict: SwitchVerdict) -> None:
        """A switch has shown what it was worth."""
        body = {
            "congestion_control": verdict.congestion_control,
            "before": verdict.before,
            "goodput_ratio": round(verdict.goodput_ratio, 4),
            "kept": verdict.kept,
        }
        self._journal.followed(EntryKind.OUTCOME, body)

    def buffered(self, before: int | None, after: int, needed: int, why: str) -> None:
        """The send buffers of the live sockets were set."""
        _log.info("send buffers: %s", why)
        self._journal.followed(EntryKind.BUFFER, {"from": before, "to": after, "needed_bytes": needed, "why": why})
        self._changed("socket_buffer_bytes", before, after, why)

    def ended(self, summary: TransferSummary) -> None:
        """The transfer, or this process, is over."""
        if self.published is not None:
            self.published = replace(self.published, outcome=summary)
        self._journal.followed(EntryKind.END, outcome_json(summary))

    def _changed(self, what: str, before: str | int | None, after: str | int, why: str) -> None:
        if self.published is not None:
            change = Changed(self._now(), what, before, after, why)
            self.published = replace(self.published, changes=(*self.published.changes, change)[-MOST_CHANGES:])
