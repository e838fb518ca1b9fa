"""Where a decision stands for others to read: the HTTP answer, the metrics, the log and the record."""

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
    """One job's decision. `published` is what stands now."""

    def __init__(self, metrics: AdvisorMetrics, journal: Journal, now: Callable[[], datetime]) -> None:
        self.metrics = metrics
        self.published: Published | None = None
        self._journal = journal
        self._now = now

    def stand(self, path: PathMeasurement, decision: Decision, *, applied: bool, decided_at: datetime | None = None) -> None:
        """Publishes a decision; the time of the one before stays unless another is given."""
        before = self.published
        moment = decided_at or (before.decided_at if before else self._now())
        self.published = Published(
            path, decision, moment, applied, before.changes if before else (), looks=before.looks if before else PausedProbes()
        )
        self.metrics.decided(self.published)
        _log.info("%s; applied: %s", decision.message, "yes" if applied else "no")

    def record(self) -> None:
        """Puts what stands on record as a decision of its own."""
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
        told = {"from": outcome.base.streams, "tried": outcome.tried.streams, "kept": outcome.kept, "why": outcome.why}
        self._journal.tell(EntryKind.STREAMS, told | sides)
        if outcome.kept != outcome.base.streams:
            self._changed("streams", outcome.base.streams, outcome.kept, outcome.why)

    def switched(self, before: str, switch: ControlSwitch) -> None:
        """The congestion control of the live sockets was switched."""
        self.metrics.switched(switch.to, undo=switch.undo)
        _log.info("congestion control %s -> %s: %s", before, switch.to, switch.why)
        self._journal.tell(EntryKind.SWITCH, {"from": before, "to": switch.to, "undo": switch.undo, "why": switch.why})
        self._changed("congestion_control", before, switch.to, switch.why)

    def surveyed(self, trace: Trace) -> None:
        """The path was sampled without own data: the samples go on record, for training."""
        if len(trace):
            self._journal.tell(EntryKind.SURVEY, samples_json(trace))

    def looked(self, look: ReportProbe) -> None:
        """Data stood still for a look at the path."""
        self.metrics.looked(look.paused_s, "news" if look.news else "sure" if look.sure else "unsure" if look.background else "failed")
        told = {"why": look.why, "story": look.story, "quiet_seconds": round(look.paused_s, 2), "sure": look.sure, "news": look.news}
        told |= {"failure": look.failure or None, **background_json(look.background)}
        _log.info("quiet look of %.1f s (%s): %s", look.paused_s, look.story, look.failure or told["background"])
        self._journal.tell(EntryKind.LOOK, told)
        if self.published is not None:
            looks = self.published.looks
            added = PausedProbes(looks.count + 1, looks.quiet_s + look.paused_s, self._now())
            self.published = replace(self.published, looks=added)

    def proved(self, verdict: SwitchVerdict) -> None:
        """A switch has shown what it was worth."""
        told = {
            "congestion_control": verdict.congestion_control,
            "before": verdict.before,
            "goodput_ratio": round(verdict.goodput_ratio, 4),
            "kept": verdict.kept,
        }
        self._journal.tell(EntryKind.OUTCOME, told)

    def buffered(self, before: int | None, after: int, needed: int, why: str) -> None:
        """The send buffers of the live sockets were set."""
        _log.info("send buffers: %s", why)
        self._journal.tell(EntryKind.BUFFER, {"from": before, "to": after, "needed_bytes": needed, "why": why})
        self._changed("socket_buffer_bytes", before, after, why)

    def ended(self, summary: TransferSummary) -> None:
        """The transfer, or this process, is over."""
        if self.published is not None:
            self.published = replace(self.published, outcome=summary)
        self._journal.tell(EntryKind.END, outcome_json(summary))

    def _changed(self, what: str, before: str | int | None, after: str | int, why: str) -> None:
        if self.published is not None:
            change = Changed(self._now(), what, before, after, why)
            self.published = replace(self.published, changes=(*self.published.changes, change)[-MOST_CHANGES:])
