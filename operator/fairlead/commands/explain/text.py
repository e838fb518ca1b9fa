"""The explanation as text for people."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from datetime import datetime

from fairlead.api.shared.quantity import format_duration
from fairlead.api.transferjob.status import DecisionStatus, EngineChoice, EngineWeighed, ProgressStatus
from fairlead.commands.explain.account import ExplainedEnd, Explanation, JobBandwidth, JobPath

_LONGEST_TEXT = 400
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")


def render(job: Explanation, steps: Sequence[str], now: datetime) -> str:
    """The whole text, without a last line break. What movers, advisors and other users wrote is printed without control characters."""
    sections = (
        (
            "Conditions",
            as_table((each.type, each.status, each.reason, since(each.last_transition_time, now), each.message) for each in job.conditions),
        ),
        ("Placement", _placement(job)),
        ("Bandwidth", _bandwidth(job.bandwidth)),
        ("Path", _path(job.path, now) if job.path else []),
        ("Protocol", _engines(job.engine_choice) if job.engine_choice else []),
        ("Decision", _decision(job.decision) if job.decision else []),
        ("Progress", _progress(job, now)),
        ("Events", as_table((_at(event.time), event.type, event.reason, _times(event.count), event.message) for event in job.events)),
        ("Not shown", [plain(sentence) for sentence in job.not_shown]),
        ("What to do", [plain(step) for step in steps]),
    )
    blocks = [_headline(job, now)] + [f"{title}\n" + "\n".join(f"  {line}" for line in lines) for title, lines in sections if lines]
    return "\n\n".join(blocks)


def _headline(job: Explanation, now: datetime) -> str:
    progress = job.progress or ProgressStatus()
    parts = [
        job.phase,
        "" if progress.percent is None else f"{progress.percent} %",
        f"created {since(job.created_time, now)} ago",
        "" if job.answers_spec or not job.conditions else "the status is of an earlier spec",
        "being deleted" if job.deleting else "",
    ]
    return f"TransferJob {job.namespace}/{job.name}: {', '.join(part for part in parts if part)}"


def _placement(job: Explanation) -> list[str]:
    def end(title: str, placed: ExplainedEnd) -> tuple[str, ...]:
        interface = " ".join(part for part in (placed.interface, placed.address) if part)
        return (title, placed.node or "no node yet", interface or "no interface yet", f"{placed.claim}:/{placed.path}", placed.pod or "")

    return [*as_table([end("from", job.source), end("to", job.destination)]), f"network  {job.network}"]


def _bandwidth(bandwidth: JobBandwidth) -> list[str]:
    wanted = [f"weight {bandwidth.weight}"]
    wanted += [f"limit {bandwidth.limit}"] if bandwidth.limit else []
    wanted += [f"guarantee {bandwidth.guarantee}"] if bandwidth.guarantee else []
    lines = [("asks for", ", ".join(wanted))]
    if bandwidth.cap is None:
        return as_table([*lines, ("cap", "none")])
    of_cap = "" if bandwidth.part_of_cap is None else f", {float(bandwidth.part_of_cap):.0%} of the cap"
    lines.append(("cap", f"{bandwidth.cap}, held by {bandwidth.enforced_by}"))
    lines.append(("measured", f"{bandwidth.measured}{of_cap}" if bandwidth.measured else "nothing yet"))
    lines.append(("bound by", _BOUNDS.get(bandwidth.bound_by or "", "not known").format(link=bandwidth.bottleneck)))
    if (link := bandwidth.link) is not None:
        rates = f"{link.capacity}, {link.available} of it for jobs, {link.allocated} given" + (
            f", {link.foreign} others'" if link.foreign else ""
        )
        lines.append((f"link {link.name}", f"{rates}; {_count(link.jobs, 'job crosses it', 'jobs cross it')}, {link.waiting} more wait"))
    if (tenant := bandwidth.tenant) is not None:
        own = f"{_count(tenant.jobs, 'job', 'jobs')} with {tenant.allocated} together, {tenant.waiting} more wait"
        lines.append((f"tenant {tenant.name}", own))
    elif bandwidth.tenant_name:
        lines.append(("tenant", bandwidth.tenant_name))
    return as_table(lines)


_BOUNDS = {
    "JobLimit": "the job's own limit",
    "TenantLimit": "its tenant's limit on link {link}",
    "Link": "link {link}, which is the fullest on its way",
}


def _path(path: JobPath, now: datetime) -> list[str]:
    lines: list[tuple[str, ...]] = []
    if path.job is not None:
        lines.append(("this job", f"RTT {path.job.rtt or '?'}, least {path.job.rtt_minimum or '?'}, loss {path.job.loss or '?'}"))
    if path.name is not None:
        known = [f"RTT {path.rtt or '?'}", f"background {path.background or 'not known'}"]
        known += [f"one transfer got {path.capacity}"] if path.capacity else []
        known += [f"declared {path.declared_capacity}"] if path.declared_capacity else []
        known += [f"probed {since(path.last_measured_time, now)} ago"] if path.last_measured_time else ["not probed"]
        lines.append((path.name, ", ".join(known)))
    return as_table(lines)


def _decision(decision: DecisionStatus) -> list[str]:
    abstained = ", the safe choice" if decision.abstained else ""
    lines: list[tuple[str, ...]] = [
        ("in force", f"{decision.protocol}, {decision.congestion_control}, {_count(decision.streams, 'stream', 'streams')}{abstained}"),
        ("because", f"{decision.reason}{': ' if decision.message else ''}{decision.message or ''}"),
    ]
    if decision.background is not None:
        probability = f" with {decision.background.probability}" if decision.background.probability else ""
        any_bbr = f", any BBR {decision.any_bbr}" if decision.any_bbr else ""
        lines.append(("background", f"{decision.background.class_}{probability}{any_bbr}"))
    lines += [("confidence", decision.confidence)] if decision.confidence else []
    lines += [("rejected", f"{other.congestion_control}: {other.why_not or 'no reason given'}") for other in decision.alternatives]
    lines += [("switched", f"{_at(each.time)} {each.from_} to {each.to}: {each.why or 'no reason given'}") for each in decision.switches]
    lines.append(("decided", f"{_at(decision.decided_at)}{f' by model {decision.model}' if decision.model else ''}"))
    return as_table(lines)


def _engines(choice: EngineChoice) -> list[str]:
    def row(weighed: EngineWeighed) -> tuple[str, ...]:
        figures = [f"{weighed.goodput} in {_count(weighed.measurements, 'transfer', 'transfers')}" if weighed.goodput else "no transfer"]
        figures += [f"{weighed.resent} resent"] if weighed.resent else []
        figures += [f"{weighed.cpu_seconds_per_gigabyte} CPU-s/GB"] if weighed.cpu_seconds_per_gigabyte else []
        return (weighed.protocol, weighed.verdict, ", ".join(figures))

    return [plain(choice.message), *as_table(row(weighed) for weighed in choice.weighed)]


def _progress(job: Explanation, now: datetime) -> list[str]:
    lines: list[tuple[str, ...]] = []
    if (progress := job.progress) is not None:
        done = (progress.bytes_transferred or 0) + (progress.bytes_skipped or 0)
        lines.append(
            ("bytes", f"{size(done)} of {size(progress.bytes_total)}, {size(progress.bytes_skipped or 0)} of it was there already")
        )
        files = (progress.files_transferred or 0) + (progress.files_skipped or 0)
        lines.append(("files", f"{files} of {'?' if progress.files_total is None else progress.files_total}"))
        rate = f"{progress.rate or '?'} bit/s" + (f", {progress.eta} left" if progress.eta else "")
        last = (
            f", last byte {since(progress.last_progress_time, now)} ago" if progress.last_progress_time and not job.completion_time else ""
        )
        lines.append(("rate", f"{rate}{last}"))
    if job.attempts:
        lines.append(("attempts", f"{job.attempts}, {job.failures} failed of at most {job.backoff_limit}"))
    if job.last_failure is not None:
        failed = job.last_failure
        lines.append(("failure", f"attempt {failed.attempt}, {_at(failed.time)}, {failed.reason}: {failed.message}"))
    if job.start_time is not None:
        ended = f", ended {_at(job.completion_time)}" if job.completion_time else ""
        lines.append(("started", f"{_at(job.start_time)}{ended}"))
    return as_table(lines)


def as_table(rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines with aligned columns, the last one as long as it is."""
    cells = [[plain(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in cells if column < len(row)) for column in range(max(map(len, cells), default=0))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip() for row in cells]


def plain(text: str) -> str:
    """`text` on one line and without what a terminal would obey: control, format and direction characters."""
    clean = "".join(
        " " if char in "\n\t" else char if unicodedata.category(char)[0] != "C" else "\N{REPLACEMENT CHARACTER}" for char in text
    )
    return clean if len(clean) <= _LONGEST_TEXT else f"{clean[:_LONGEST_TEXT]}..."


def _at(moment: datetime | None) -> str:
    return "?" if moment is None else f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def since(moment: datetime, now: datetime) -> str:
    """How long ago `moment` was, e.g. `1m5s`."""
    return format_duration((now - moment).total_seconds())


def _times(count: int) -> str:
    return f"{count} times" if count > 1 else ""


def _count(number: int, one: str, several: str) -> str:
    return f"{number} {one if number == 1 else several}"


def size(count: int | None) -> str:
    """Bytes to three significant figures, e.g. `1.87 GB`; `?` where they are not known."""
    if count is None:
        return "?"
    shown = [f"{count / 1000**power:.3g}" for power in range(len(_UNITS))]
    # Once rounded: 999 999 bytes are 1 MB.
    return next((f"{figures} {unit}" for figures, unit in zip(shown, _UNITS, strict=True) if float(figures) < 1000), f"{shown[-1]} EB")
