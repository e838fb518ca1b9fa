"""The board Goodput: who moves what, how fast, how far it is, and what holds it back."""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.builders import dashboard as builders

from fairlead_dev.boards.frame import GOODPUT, board, decision_link, section
from fairlead_dev.boards.panels import (
    BITS_PER_SECOND,
    BYTES,
    COUNT,
    GREEN,
    RATIO,
    RED,
    SECONDS,
    YELLOW,
    Query,
    TableColumn,
    gained,
    graph,
    number,
    rows,
)

_INFO: Final = 'fairlead_job_info{namespace=~"$namespace", tenant=~"$tenant|", source_node=~"$node|", transferjob=~"$job"}'
"""One that waits may have no tenant and no node yet."""
_JOB: Final = f"* on (namespace, transferjob) group_left () {_INFO}"
"""Keeps the jobs that the variables choose."""
_MOVER: Final = '{namespace=~"$namespace", node=~"$node", transferjob=~"$job"}'
"""With a node chosen these are the senders there: receivers are elsewhere, and tell nothing of the network but their streams."""
_SENT: Final = f"sum(rate(fairlead_mover_wire_bytes_total{_MOVER}[$__rate_interval])) by (namespace, transferjob)"
_RETRANSMITTED: Final = f"sum(rate(fairlead_mover_retransmitted_bytes_total{_MOVER}[$__rate_interval])) by (namespace, transferjob)"


def goodput() -> builders.Dashboard:
    """The board."""
    made = board(GOODPUT, "Who moves what, how fast, and what holds it back.", "namespace", "tenant", "node", "job")
    section(
        made,
        "Now",
        number(
            "Goodput",
            "Payload that arrives per second, of all jobs that are chosen above.",
            BITS_PER_SECOND,
            Query(f"sum(fairlead_job_measured_bytes_per_second {_JOB}) * 8"),
            width=6,
            nothing="no data flows",
        ),
        number(
            "Jobs that move data",
            "Jobs in the phase Transferring.",
            COUNT,
            Query(f'count(fairlead_job_phase{{phase="Transferring"}} {_JOB})'),
            width=4,
            nothing="0",
        ),
        number(
            "Jobs not yet moving",
            "Jobs in the phases Pending and Probing. The table below says why, by job.",
            COUNT,
            Query(f'count(fairlead_job_phase{{phase=~"Pending|Probing"}} {_JOB})'),
            width=4,
            nothing="0",
        ),
        number(
            "Longest without progress",
            "Of the jobs that should move data: how long ago bytes last arrived.",
            SECONDS,
            Query(
                "max(time() - (fairlead_job_last_progress_timestamp_seconds"
                f' and on (namespace, transferjob) fairlead_job_phase{{phase="Transferring"}}) {_JOB})'
            ),
            width=5,
            decimals=0,
            steps=((None, GREEN), (30, YELLOW), (120, RED)),
            nothing="no data flows",
        ),
        number(
            "Still to move",
            "Bytes that have not arrived yet, of all chosen jobs whose source was listed.",
            BYTES,
            Query(f"sum((fairlead_job_bytes - on (namespace, transferjob) fairlead_job_delivered_bytes) {_JOB})"),
            width=5,
            nothing="nothing",
        ),
    )
    section(
        made,
        "Jobs",
        graph(
            "Goodput by job",
            "Payload that arrives per second.",
            BITS_PER_SECOND,
            Query(
                f"sum by (namespace, transferjob) (fairlead_job_measured_bytes_per_second {_JOB}) * 8",
                "{{namespace}} / {{transferjob}}",
            ),
            width=14,
            height=9,
            stacked=True,
        ),
        graph(
            "Asked, allowed, measured",
            "Dashed: what the chosen jobs ask for at most, and their caps in force, added up. Solid: what arrives. A gap between"
            " allowed and measured means that the path or a disk is the limit, not the share.",
            BITS_PER_SECOND,
            Query(f"sum(fairlead_job_asked_bytes_per_second {_JOB}) * 8", "Asked at most"),
            Query(f"sum(fairlead_job_allocated_bytes_per_second {_JOB}) * 8", "Allowed (caps)"),
            Query(f"sum(fairlead_job_measured_bytes_per_second {_JOB}) * 8", "Measured"),
            width=10,
            height=9,
            dashed=("Asked at most", "Allowed"),
        ),
        rows(
            "Jobs that are not finished",
            "A row for each job: its progress, its rate, and what keeps its cap from being higher. A job's name leads to its decision.",
            TableColumn("", f"max by (namespace, transferjob, phase) (fairlead_job_phase {_JOB})"),
            TableColumn("Namespace", label="namespace"),
            TableColumn("Job", label="transferjob", links=(decision_link(),)),
            TableColumn("In phase", label="phase", width=120),
            TableColumn(
                "Progress",
                f"max by (namespace, transferjob) (fairlead_job_delivered_bytes / (fairlead_job_bytes > 0) {_JOB})",
                unit=RATIO,
                steps=((None, GREEN),),
                gauge=True,
            ),
            TableColumn("Goodput", _by_job("fairlead_job_measured_bytes_per_second", 8), unit=BITS_PER_SECOND),
            TableColumn("Cap", _by_job("fairlead_job_allocated_bytes_per_second", 8), unit=BITS_PER_SECOND),
            TableColumn(
                "Time left",
                "max by (namespace, transferjob) ((fairlead_job_bytes - fairlead_job_delivered_bytes)"
                f" / (fairlead_job_measured_bytes_per_second > 0) {_JOB})",
                unit=SECONDS,
                decimals=0,
            ),
            TableColumn("Attempts", _by_job("fairlead_job_attempts"), steps=((None, GREEN), (2, YELLOW), (4, RED)), width=90),
            width=16,
            height=9,
            sort_by="Goodput",
        ),
        rows(
            "What bounds each job",
            "What keeps the job's cap from being higher: its own limit, its tenant's limit, or a link that it shares.",
            TableColumn("", f"max by (namespace, transferjob, by, link) (fairlead_job_bound {_JOB})"),
            TableColumn("Namespace", label="namespace"),
            TableColumn("Job", label="transferjob", links=(decision_link(),)),
            TableColumn("Bound by", label="by"),
            TableColumn("Link", label="link"),
            width=8,
            height=9,
            sort_by="Job",
            descending=False,
        ),
    )
    section(
        made,
        "On the path",
        graph(
            "RTT under load",
            "Mean smoothed round-trip time of the transfer's streams. What exceeds the RTT of the idle path is queueing delay.",
            SECONDS,
            Query(f"max by (namespace, transferjob) (fairlead_mover_rtt_seconds{_MOVER})", "{{transferjob}}"),
            width=8,
        ),
        graph(
            "Retransmitted",
            "Share of the bytes on the network that the kernel had to send again.",
            RATIO,
            Query(f"{_RETRANSMITTED} / ({_SENT} > 0)", "{{transferjob}}"),
            width=8,
            usual_most=0.05,
            steps=((None, GREEN), (0.02, YELLOW)),
        ),
        graph(
            "Streams",
            "Open data streams.",
            COUNT,
            Query(f"max by (namespace, transferjob) (fairlead_mover_streams{_MOVER})", "{{transferjob}}"),
            width=8,
        ),
        graph(
            "On the network, by job",
            "IP packets sent, headers and retransmissions included: what counts against a cap.",
            BITS_PER_SECOND,
            Query(f"{_SENT} * 8", "{{namespace}} / {{transferjob}}"),
            width=8,
        ),
        graph(
            "Data interfaces of the sources",
            "What the data interfaces of the sending nodes carry, everybody's traffic included.",
            BITS_PER_SECOND,
            Query(
                'max by (node, interface) (rate(fairlead_mover_interface_sent_bytes_total{role="sender", node=~"$node"}[$__rate_interval]))'
                " * 8",
                "{{node}} / {{interface}}",
            ),
            width=8,
        ),
        graph(
            "Jobs that ended",
            "Jobs that ended in the last five minutes, by how.",
            COUNT,
            Query(
                gained('fairlead_operator_jobs_finished_total{namespace=~"$namespace"}', "5m", "outcome", "reason"),
                "{{outcome}}: {{reason}}",
            ),
            width=8,
            nothing="none ended",
        ),
    )
    return made


def _by_job(metric: str, factor: int = 1) -> str:
    times = f" * {factor}" if factor != 1 else ""
    return f"max by (namespace, transferjob) ({metric} {_JOB}){times}"
