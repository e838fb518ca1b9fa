"""The reference page of all metrics, from what each program declares of its own."""

from __future__ import annotations

from fairlead_dev.metrics import sections

_HEAD = """# Metrics
Generated from the programs' own descriptions by `make generate`.

All are in base units: seconds, bytes, and ratios from 0 to 1. Rates of payload and of the network are
in bytes per second, where resources have bits. Counters begin at 0 when their process does.

Series that live as long as their program have labels with few values: namespaces, links, tenants,
phases and documented reasons. A job's own series, and those of its movers and advisor, are there while
the job is not finished, and vanish with it. With the chart's PodMonitors a mover's and an advisor's
series have the labels `namespace`, `transferjob`, `role`, `node` and `pod` from their pod; the movers
themselves name no job. Those of node agents and guards have `node`, the node that they are of. The
operator's series of jobs have `namespace` and `transferjob` of their own.

[How to watch a cluster](../how-to/watch-with-prometheus.md) says how they are collected, and which
rules and alerts the chart has.
"""


def render() -> str:
    """docs/reference/metrics.md."""
    parts = [_HEAD]
    for section in sections():
        rows = "\n".join(
            f"| `{metric.name}` | {metric.kind} | {', '.join(f'`{label}`' for label in metric.labels) or '-'} | {metric.help} |"
            for metric in section.metrics
        )
        parts.append(f"## {section.title}\n{section.place}\n\n| metric | type | labels | meaning |\n|---|---|---|---|\n{rows}\n")
    parts.append("The operator and the advisor have Python's and the process's usual metrics besides (`python_*`, `process_*`).\n")
    return "\n".join(parts)
