"""From what the phases left to the rows of the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from fairlead_dev.bench.fairness.figures import cap_errors, convergence_s, excess, mean_rate_bps, normalised_jain
from fairlead_dev.bench.fairness.phases import Record
from fairlead_dev.bench.fairness.scenario import BY_NAME, LINKS, WEIGHTS, Event, Interval, due_bps, intervals, links_of
from fairlead_dev.bench.lab.rates import percentile, settled_s
from fairlead_dev.bench.rows import Row

SETTLING_S = 10.0
"""After an event, until a state counts as steady: what convergence may take."""
LEAST_STEADY_S = 10.0
FULL = 0.99
"""A link of which jobs are due this part of what it has is a bottleneck."""
LATENCY_WINDOW_S, LATENCY_LIMIT_S = 0.3, 3.2
WARM_S = 10.0


def managed_rows(record: Record, timeline: Sequence[Event], end_s: float) -> list[Row]:
    """jain_managed, utilisation, convergence_s_p95, overshoot_max and the jobs' cap errors."""
    spans = intervals(timeline, end_s)
    return [
        *_steady_rows(record, spans),
        _convergence_row(record, spans),
        _overshoot_row(record),
        _cap_error_row(record),
    ]


def _steady(spans: Sequence[Interval]) -> list[Interval]:
    # At the start a dozen movers come up and the slow disk is not known yet: that is no steady state.
    return [span for span in spans[1:] if span.end_s - span.begin_s >= SETTLING_S + LEAST_STEADY_S]


def _steady_rows(record: Record, spans: Sequence[Interval]) -> list[Row]:
    indices: list[float] = []
    operators: list[float] = []
    used: dict[str, float] = {}
    jobs: list[Mapping[str, object]] = []
    for span in _steady(spans):
        begin_s, end_s = record.began_s + span.begin_s + SETTLING_S, record.began_s + span.end_s
        due = due_bps(span.jobs, span.weights)
        rates = {name: mean_rate_bps(record.jobs.get(name, ()), begin_s, end_s) for name in due}
        indices.append(normalised_jain(rates, due))
        operators += [index for at_s, index in record.operator_jain if begin_s <= at_s <= end_s]
        for link in LINKS:
            wanted = sum(bps for name, bps in due.items() if link.name in links_of(BY_NAME[name]))
            if wanted >= FULL * link.available_bps:
                part = mean_rate_bps(record.links[link.name], begin_s, end_s) / link.available_bps
                used[link.name] = min(part, used.get(link.name, 1.0))
        jobs.append({"after": span.event, "rates_mbps": _mbps(rates), "due_mbps": _mbps(due)})
    most = max((len(span.jobs) for span in spans), default=0)
    by_operator = f"; by weight alone, as the operator reports it, {median(operators):.3f}" if operators else ""
    note = f"lowest of {len(indices)} steady states, up to {most} jobs: rate over what weights, links and the disk make due{by_operator}"
    lowest = min(used, key=lambda name: used[name], default=None)
    return [
        Row("jain_managed", round(min(indices), 4) if indices else None, "index", note=note, more={"steady": jobs}),
        Row(
            "utilisation",
            round(used[lowest], 4) if lowest else None,
            "share",
            note=f"of capacity less headroom, IP bytes; lowest of {len(used)} bottlenecks: {lowest}",
            more={"links": {name: round(part, 4) for name, part in used.items()}},
        ),
    ]


def _convergence_row(record: Record, spans: Sequence[Interval]) -> Row:
    took: dict[str, float | None] = {}
    for span in spans[1:]:
        # What a disk gives comes in whole blocks: one second of it is no rate.
        due = {name: bps for name, bps in due_bps(span.jobs, span.weights).items() if BY_NAME[name].disk_bps is None}
        found = convergence_s(record.jobs, due, record.began_s + span.begin_s, record.began_s + span.end_s)
        took[span.event] = None if found is None else round(found, 2)
    times = [found for found in took.values() if found is not None]
    lost = len(took) - len(times)
    note = f"{len(took)} arrivals, departures and changes of weight: until the last job's every second is within 10 % of what it is due"
    if times:
        note += f"; median {median(times):.1f}"
    if lost:
        note += f"; {lost} did not converge before the next event"
    value = round(percentile(times, 0.95), 2) if times and not lost else None
    return Row("convergence_s_p95", value, "s", note=note, more={"events": took})


def _overshoot_row(record: Record) -> Row:
    found = {link.name: excess(record.links[link.name], link.available_bps, record.began_s, record.ended_s) for link in LINKS}
    note = "highest second on any link against capacity less headroom, IP bytes, the whole run with all its changes"
    more = {"links": {name: round(value, 4) for name, value in found.items()}}
    return Row("overshoot_max", round(max(found.values()), 4), "share", note=note, more=more)


def _cap_error_row(record: Record) -> Row:
    errors = cap_errors(record.jobs, record.writes, record.began_s, record.ended_s)
    greedy = {name: round(error, 4) for name, error in errors.items() if BY_NAME[name].disk_bps is None}
    worst = max(greedy, key=lambda name: abs(greedy[name]), default=None)
    note = f"mean rate against the cap over each job's longest time under one; {worst} is the farthest; jobs limited by a disk left out"
    return Row("cap_error_max", abs(greedy[worst]) if worst else None, "share", note=note, more={"jobs": greedy})


def unmanaged_row(record: Record, names: Sequence[str]) -> Row:
    """jain_unmanaged, by the same measure."""
    begin_s, end_s = record.began_s + WARM_S, record.ended_s
    due = due_bps(names, WEIGHTS)
    rates = {name: mean_rate_bps(record.jobs.get(name, ()), begin_s, end_s) for name in due}
    note = f"the same {len(due)} jobs without caps, {end_s - begin_s:.0f} s"
    return Row("jain_unmanaged", round(normalised_jain(rates, due), 4), "index", note=note, more={"rates_mbps": _mbps(rates)})


def latency_rows(record: Record) -> list[Row]:
    """enforce_latency_s_p50 and _p99."""
    took = [
        settled_s(record.jobs[write.job], write.at_s, write.before_bps, write.after_bps, window_s=LATENCY_WINDOW_S, limit_s=LATENCY_LIMIT_S)
        for write in record.writes
        if write.at_s + LATENCY_LIMIT_S < record.ended_s
    ]
    times = [found for found in took if found is not None]
    lost = len(took) - len(times)
    note = (
        f"{len(took)} changes of caps between 10 and 30 Mb/s: from the annotation to the end of the first {LATENCY_WINDOW_S} s at the new "
        "rate, 0.3 s for the kubelet's projection waited for in between"
    )
    if lost:
        note += f"; {lost} were not obeyed within {LATENCY_LIMIT_S} s"
    shares = (("p50", 0.5), ("p99", 0.99))
    return [
        Row(f"enforce_latency_s_{name}", round(percentile(times, share), 3) if times and not lost else None, "s", note=note)
        for name, share in shares
    ]


def _mbps(rates_bps: Mapping[str, float]) -> dict[str, float]:
    return {name: round(bps / 1e6, 2) for name, bps in sorted(rates_bps.items())}
