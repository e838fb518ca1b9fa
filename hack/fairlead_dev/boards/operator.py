"""The board Operator: whether the operator is up and keeps up, how jobs end, and whether the nodes have room for more."""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.builders import dashboard as builders

from fairlead_dev.boards.frame import OPERATOR, board, section
from fairlead_dev.boards.panels import (
    BYTES,
    COUNT,
    GREEN,
    RATIO,
    RED,
    SECONDS,
    YELLOW,
    Query,
    bars,
    gained,
    graph,
    number,
)

_PHASE_SECONDS: Final = "fairlead_operator_job_phase_duration_seconds"
_RATE: Final = "[$__rate_interval]"
_FREE: Final = "fairlead_node_storage_free_bytes"
_BY_FOLDER: Final = "{{node}} {{path}}"


def operator() -> builders.Dashboard:
    """The board."""
    made = board(OPERATOR, "Whether the operator is up and keeps up, how jobs end, and whether the nodes have room for more.", "namespace")
    section(
        made,
        "Is it well",
        number(
            "Operators up",
            "Operators that answer Prometheus.",
            COUNT,
            Query("count(fairlead_operator_queue_depth)"),
            width=4,
            steps=((None, RED), (1, GREEN)),
            nothing="0: down",
        ),
        number(
            "Jobs that wait for a worker",
            "More than a few for minutes mean that the operator does not keep up: give it CPU, or raise the chart value workers.",
            COUNT,
            Query("max(fairlead_operator_queue_depth)"),
            width=4,
            steps=((None, GREEN), (50, YELLOW), (500, RED)),
        ),
        number(
            "Oldest in the queue",
            "How long the first job in the queue has waited for a worker.",
            SECONDS,
            Query("max(fairlead_operator_queue_oldest_seconds)"),
            width=4,
            steps=((None, GREEN), (5, YELLOW), (60, RED)),
        ),
        number(
            "Last look at everything",
            "How long ago the operator last listed all jobs and pods. It does so every resyncSeconds, 300 by default.",
            SECONDS,
            Query("time() - max(fairlead_operator_last_list_timestamp_seconds)"),
            width=4,
            decimals=0,
            steps=((None, GREEN), (900, RED)),
        ),
        number(
            "Failed passes",
            "Passes over jobs that failed in the last five minutes. Each is tried again.",
            COUNT,
            Query(f"{gained('fairlead_operator_reconcile_errors_total', '5m')} or vector(0)"),
            width=4,
            decimals=0,
            steps=((None, GREEN), (1, YELLOW), (50, RED)),
        ),
        number(
            "Movers that do not answer",
            "Movers and advisors that did not answer the last question for their progress.",
            COUNT,
            Query("max(fairlead_operator_polls_silent)"),
            width=4,
            steps=((None, GREEN), (1, YELLOW)),
        ),
    )
    section(
        made,
        "Does it keep up",
        graph(
            "Queue",
            "Jobs that wait for a worker, that workers have, and that wait for their next look.",
            COUNT,
            Query("max(fairlead_operator_queue_depth)", "wait for a worker"),
            Query("max(fairlead_operator_queue_working)", "at work"),
            Query("max(fairlead_operator_queue_scheduled)", "scheduled"),
            width=8,
        ),
        graph(
            "Passes",
            "Passes over jobs per second.",
            "reqps",
            Query(f"sum(rate(fairlead_operator_reconcile_duration_seconds_count{_RATE}))", "passes"),
            width=8,
        ),
        graph(
            "Duration of a pass",
            "From taking a job from the queue to the end of its pass.",
            SECONDS,
            Query(_quantile(0.5, "reconcile_duration"), "median"),
            Query(_quantile(0.99, "reconcile_duration"), "99th percentile"),
            width=8,
        ),
        graph(
            "Writes to the API server",
            "Requests that change something, by what they change.",
            "reqps",
            Query(
                f"sum by (resource) (rate(fairlead_operator_api_writes_total{_RATE})) > 0",
                "{{resource}}",
            ),
            width=8,
        ),
        graph(
            "Duration of a round",
            "Time to share all links once.",
            SECONDS,
            Query(_quantile(0.5, "fairness_round_duration"), "median"),
            Query(_quantile(0.99, "fairness_round_duration"), "99th percentile"),
            width=8,
        ),
        graph(
            "Memory",
            "Resident memory of the operator's process, of the largest one where several run.",
            BYTES,
            Query("max(process_resident_memory_bytes and on (instance) fairlead_operator_queue_depth)", "memory"),
            width=8,
        ),
    )
    section(
        made,
        "How jobs fare",
        graph(
            "Jobs by phase",
            "Jobs that exist, by phase.",
            COUNT,
            Query("max by (phase) (fairlead_operator_jobs) > 0", "{{phase}}"),
            width=8,
            stacked=True,
        ),
        graph(
            "Jobs that ended",
            "Jobs that ended in the last five minutes, by how and why.",
            COUNT,
            Query(
                gained('fairlead_operator_jobs_finished_total{namespace=~"$namespace"}', "5m", "outcome", "reason"),
                "{{outcome}}: {{reason}}",
            ),
            width=8,
            nothing="none ended",
        ),
        graph(
            "Attempts that failed",
            "Attempts that failed in the last five minutes, by reason. A job makes several.",
            COUNT,
            Query(
                gained('fairlead_operator_attempts_failed_total{namespace=~"$namespace"}', "5m", "reason"),
                "{{reason}}",
            ),
            width=8,
            nothing="none failed",
        ),
        graph(
            "Time in each phase",
            "Mean time that jobs spent in each phase, of the phases that ended within as much time as is chosen.",
            SECONDS,
            Query(
                f"{gained(_PHASE_SECONDS + '_sum', '$__range', 'phase')} / ({gained(_PHASE_SECONDS + '_count', '$__range', 'phase')} > 0)",
                "{{phase}}",
            ),
            width=12,
        ),
        graph(
            "Delivered",
            "Payload that was verified at destinations, by namespace.",
            "bps",
            Query(
                f'sum by (namespace) (rate(fairlead_operator_delivered_bytes_total{{namespace=~"$namespace"}}{_RATE})) * 8',
                "{{namespace}}",
            ),
            width=12,
            stacked=True,
        ),
    )
    section(
        made,
        "Data transfer nodes",
        bars(
            "Free of the size",
            "How much of each file system in nodeAgent.storagePaths is free now. A transfer into a full one fails with DestinationFull.",
            RATIO,
            Query(f"min by (node, path) ({_FREE} / fairlead_node_storage_size_bytes)", _BY_FOLDER),
            width=10,
            most=1,
            steps=((None, RED), (0.05, YELLOW), (0.15, GREEN)),
            nothing="no node agent reports any",
        ),
        graph(
            "Free space",
            "Free space of each file system in nodeAgent.storagePaths.",
            BYTES,
            Query(f"min by (node, path) ({_FREE})", _BY_FOLDER),
            width=14,
            nothing="no node agent reports any",
        ),
    )
    return made


def _quantile(share: float, what: str) -> str:
    return f"histogram_quantile({share}, sum by (le) (rate(fairlead_operator_{what}_seconds_bucket{_RATE})))"
