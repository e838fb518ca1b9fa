"""The cause as a few lines for people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from rich.text import Text

from fairlead.commands.explain.account import Explanation
from fairlead.commands.explain.text import plain, since
from fairlead.plugin.why.cause import Cause, JobStanding

_VERBS: Final = {
    JobStanding.NOT_SERVED: "is not served",
    JobStanding.WAITING: "waits",
    JobStanding.BLOCKED: "cannot go on until somebody acts",
    JobStanding.STARTING: "is starting",
    JobStanding.RETRYING: "tries again after a failure",
    JobStanding.RUNNING: "runs",
    JobStanding.TROUBLED: "runs, but not as it should",
    JobStanding.SUSPENDED: "is suspended",
    JobStanding.SUCCEEDED: "has succeeded",
    JobStanding.FAILED: "has failed",
    JobStanding.DELETING: "is being deleted",
}
_STYLES: Final = {
    JobStanding.NOT_SERVED: "bold red",
    JobStanding.BLOCKED: "bold red",
    JobStanding.FAILED: "bold red",
    JobStanding.RETRYING: "bold yellow",
    JobStanding.TROUBLED: "bold yellow",
    JobStanding.WAITING: "bold yellow",
    JobStanding.STARTING: "bold cyan",
    JobStanding.SUSPENDED: "bold cyan",
    JobStanding.DELETING: "bold cyan",
    JobStanding.RUNNING: "bold green",
    JobStanding.SUCCEEDED: "bold green",
}


def render(job: Explanation, cause: Cause, lesser: Sequence[Cause], now: datetime) -> Text:
    """A headline with the cause, then who said what, and what can be done. Words of others are printed without control characters."""
    text = Text()
    text.append(f"{job.namespace}/{job.name} {_VERBS[cause.state]}", _STYLES[cause.state])
    text.append(f": {plain(cause.because)}.\n")
    rows = [("reason", " > ".join(cause.reasons) + (f", for {since(cause.since, now)}" if cause.since else ""))]
    rows += [("where", f"{cause.end}: {_place(job, cause)}")] if cause.end else []
    rows += [("said", cause.message)] if cause.message else []
    rows += [("to do", cause.remedy)] if cause.remedy else []
    rows += [("page", cause.page)] if cause.page else []
    rows += [("also", f"{each.because} ({each.reason})") for each in lesser]
    rows += [("protocol", job.engine_choice.message)] if job.engine_choice else []
    rows += [("decision", decided)] if (decided := decision_line(job)) else []
    rows += [("cap", capped)] if (capped := cap_line(job)) else []
    rows += [("progress", moved)] if (moved := _progress_line(job)) else []
    rows += [("hidden", sentence) for sentence in job.not_shown]
    for title, words in rows:
        text.append(f"  {title:<9}", "dim")
        text.append(f"{plain(words)}\n")
    text.rstrip()
    return text


def decision_line(job: Explanation) -> str:
    """Which transport is in force and why; empty before there is a decision."""
    decision = job.decision
    if decision is None:
        return ""
    sure = f", confidence {decision.confidence}" if decision.confidence else ""
    why = f": {decision.message}" if decision.message else ""
    rejected = "".join(f"; {other.congestion_control} rejected: {other.why_not or 'no reason given'}" for other in decision.alternatives)
    streams = f"{decision.streams} stream{'' if decision.streams == 1 else 's'}"
    protocol = "" if decision.protocol == "TCP" else f"{decision.protocol}, "
    return f"{protocol}{decision.congestion_control} over {streams} ({decision.reason}{sure}){why}{rejected}"


def cap_line(job: Explanation) -> str:
    """What the job may send, what bounds that and what it does; empty without a cap."""
    bandwidth = job.bandwidth
    if bandwidth.cap is None or job.completion_time is not None:
        return ""
    bounds = {
        "JobLimit": "its own limit",
        "TenantLimit": f"the limit of tenant {bandwidth.tenant_name} on link {bandwidth.bottleneck}",
        "Link": f"link {bandwidth.bottleneck}",
    }
    words = [f"{bandwidth.cap} bit/s by {bounds.get(bandwidth.bound_by or '', 'what is not known')}"]
    if (link := bandwidth.link) is not None:
        words.append(f"which {link.jobs} job{'' if link.jobs == 1 else 's'} cross with {link.allocated} of {link.available}")
    part = f" ({float(bandwidth.part_of_cap):.0%})" if bandwidth.part_of_cap else ""
    words.append(f"measured {bandwidth.measured}{part}" if bandwidth.measured else "nothing measured yet")
    return ", ".join(words)


def _progress_line(job: Explanation) -> str:
    progress = job.progress
    if progress is None or progress.percent is None:
        return ""
    rate = f" at {progress.rate} bit/s" if progress.rate else ""
    left = f", {progress.eta} left" if progress.eta else ""
    return f"{progress.percent} %{rate}{left}"


def _place(job: Explanation, cause: Cause) -> str:
    end = job.source if cause.end == "source" else job.destination
    node = f" on node {end.node}" if end.node else ""
    return f"{end.claim}:/{end.path}{node}"
