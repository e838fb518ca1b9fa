"""Every query of every panel as a test for promtool: whether it has an answer where each documented metric has moved for half an hour,
with every variable at *All* and with each of them chosen.

It finds a label that no metric has, a variable that chooses by another label than its own, a join that matches nothing, and a division by
what is not there. What a real run answers is asked by `make test-monitoring`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import Any, Final

from fairlead_dev.boards.reading import Board, BoardQuery, filled, queries, variables
from fairlead_dev.metrics import DocumentedMetric, Section, sections

SCRAPE_S: Final = 15
_SAMPLES: Final = 30 * 60 // SCRAPE_S
_END: Final = "25m"
_RANGE_S: Final = 600
_USUAL: Final = "x"
_VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    "phase": ("Transferring", "Pending"),
    "reason": ("Unsure", "Classified"),
    "role": ("sender", "receiver"),
    "le": ("0.1", "+Inf"),
    "instance": ("x", "y"),
}
"""Values that queries look for, and two of who shows a series, as a leader and its successor do for a moment. Of other labels
there is one, `_USUAL`, the same for every metric."""
_OF_MOVERS: Final = ("namespace", "transferjob", "role", "node", "pod")
_OF_NODES: Final = ("namespace", "node", "pod")
_OF_PODS: Final[Mapping[str, tuple[str, ...]]] = {
    "Mover": _OF_MOVERS,
    "Advisor": _OF_MOVERS,
    "Node agent": _OF_NODES,
    "Node guard": _OF_NODES,
}
_OTHERS: Final = (DocumentedMetric("process_resident_memory_bytes", "gauge", (), "Of the client library."),)


def promtool_tests(boards: Iterable[Board], made: Iterable[Section] | None = None) -> dict[str, Any]:
    """A file for `promtool test rules`; `made` are the metrics that there are, by default all that are documented."""
    cases = [
        _case(query, chosen) for board in boards for query in queries(board) for chosen in ({}, dict.fromkeys(variables(board), _USUAL))
    ]
    series = [{"series": name, "values": f"1+1x{_SAMPLES}"} for section in made or sections() for name in _series(section)]
    series += [{"series": name, "values": f"1+1x{_SAMPLES}"} for metric in _OTHERS for name in _of_metric(metric, ())]
    test = {
        "name": "every panel has an answer",
        "interval": f"{SCRAPE_S}s",
        "input_series": series,
        "promql_expr_test": cases,
    }
    return {"evaluation_interval": f"{SCRAPE_S}s", "tests": [test]}


def labels_of_pods(section: Section) -> tuple[str, ...]:
    """The labels that the chart's PodMonitors give to the series of a section."""
    return _OF_PODS.get(section.title, ())


def _case(query: BoardQuery, chosen: Mapping[str, str]) -> dict[str, Any]:
    expr = filled(query.expr, chosen, range_s=_RANGE_S, rate_interval_s=4 * SCRAPE_S)
    # A value that is no number is no answer.
    return {"expr": f"count(({expr}) > -Inf) > bool 0", "eval_time": _END, "exp_samples": [{"labels": "{}", "value": 1}]}


def _series(section: Section) -> Iterator[str]:
    for metric in section.metrics:
        yield from _of_metric(metric, labels_of_pods(section))


def _of_metric(metric: DocumentedMetric, more: tuple[str, ...]) -> Iterator[str]:
    labels = (*metric.labels, *(label for label in (*more, "instance") if label not in metric.labels))
    if metric.kind == "histogram":
        yield from _named(f"{metric.name}_bucket", (*labels, "le"))
        yield from _named(f"{metric.name}_sum", labels)
        yield from _named(f"{metric.name}_count", labels)
    else:
        yield from _named(metric.name, labels)


def _named(name: str, labels: tuple[str, ...]) -> Iterator[str]:
    for values in product(*(_VALUES.get(label, (_USUAL,)) for label in labels)):
        pairs = ",".join(f'{label}="{value}"' for label, value in zip(labels, values, strict=True))
        yield f"{name}{{{pairs}}}"
