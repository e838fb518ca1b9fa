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
    once_by_job,
    rows,
)

_INFO: Final = 'fairlead_job_info{namespace=~"$namespace", tenant=~"$tenant|", source_node=~"$node|", transferjob=~"$job"}'
"""One that waits may have no tenant and no node yet."""
_JOB: Final = f"* on (namespace, transferjob) group_left () {once_by_job(_INFO)}"
"""Keeps the jobs that the variables choose."""
_NAME: Final = "{{namespace}} / {{transferjob}}"
_LEFT_S: Final = "(fairlead_job_bytes - fairlead_job_delivered_bytes) / (fairlead_job_measured_bytes_per_second > 0)"
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
            Query(f"sum({_of_jobs('measured_bytes_per_second')}) * 8"),
            width=6,
            nothing="no data flows",
        ),
        number(
            "Jobs that move data",
            "Jobs in the phase Transferring.",
            COUNT,
            Query(f"count({_in_phase('Transferring')})"),
            width=4,
            nothing="0",
        ),
        number(
            "Jobs not yet moving",
            "Jobs in the phases Pending and Probing. The table below says why, by job.",
            COUNT,
            Query(f"count({_in_phase('Pending|Probing')})"),
            width=4,
            nothing="0",
        ),
        number(
            "Longest without progress",
            "Of the jobs that should move data: how long ago bytes last arrived, or a mover last read any.",
            SECONDS,
            Query(f"max((time() - {once_by_job('fairlead_job_last_progress_timestamp_seconds')}) * {_in_phase('Transferring')})"),
            width=5,
            decimals=0,
            steps=((None, GREEN), (30, YELLOW), (120, RED)),
            nothing="no data flows",
        ),
        number(
            "Still to move",
            "Bytes that have not arrived yet, of all chosen jobs whose source was listed.",
            BYTES,
            Query(f"sum({once_by_job('fairlead_job_bytes - fairlead_job_delivered_bytes')} {_JOB})"),
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
                f"{_of_jobs('measured_bytes_per_second')} * 8",
                _NAME,
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
            Query(f"sum({_of_jobs('asked_bytes_per_second')}) * 8", "Asked at most"),
            Query(f"sum({_of_jobs('allocated_bytes_per_second')}) * 8", "Allowed (caps)"),
            Query(f"sum({_of_jobs('measured_bytes_per_second')}) * 8", "Measured"),
            width=10,
            height=9,
            dashed=("Asked at most", "Allowed"),
        ),
        rows(
            "Jobs that are not finished",
            "A row for each job: its progress, its rate, and what keeps its cap from being higher. A job's name leads to its decision.",
            TableColumn("", _of_jobs("phase", "phase")),
            TableColumn("Namespace", label="namespace"),
            TableColumn("Job", label="transferjob", links=(decision_link(),)),
            TableColumn("In phase", label="phase", width=120),
            TableColumn(
                "Progress",
                f"{once_by_job('fairlead_job_delivered_bytes / (fairlead_job_bytes > 0)')} {_JOB}",
                unit=RATIO,
                steps=((None, GREEN),),
                gauge=True,
            ),
            TableColumn("Goodput", f"{_of_jobs('measured_bytes_per_second')} * 8", unit=BITS_PER_SECOND),
            TableColumn("Cap", f"{_of_jobs('allocated_bytes_per_second')} * 8", unit=BITS_PER_SECOND),
            TableColumn(
                "Time left",
                f"{once_by_job(_LEFT_S)} {_JOB}",
                unit=SECONDS,
                decimals=0,
            ),
            TableColumn("Attempts", _of_jobs("attempts"), steps=((None, GREEN), (2, YELLOW), (4, RED)), width=90),
            width=16,
            height=9,
            sort_by="Goodput",
        ),
        rows(
            "What bounds each job",
            "What keeps the job's cap from being higher: its own limit, its tenant's limit, or a link that it shares.",
            TableColumn("", _of_jobs("bound", "by", "link")),
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
            Query(once_by_job(f"fairlead_mover_rtt_seconds{_MOVER}"), _NAME),
            width=8,
        ),
        graph(
            "Retransmitted",
            "Share of the bytes on the network that the kernel had to send again.",
            RATIO,
            Query(f"{_RETRANSMITTED} / ({_SENT} > 0)", _NAME),
            width=8,
            usual_most=0.05,
            steps=((None, GREEN), (0.02, YELLOW)),
        ),
        graph(
            "Streams",
            "Open data streams.",
            COUNT,
            Query(once_by_job(f"fairlead_mover_streams{_MOVER}"), _NAME),
            width=8,
        ),
        graph(
            "On the network, by job",
            "IP packets sent, headers and retransmissions included: what counts against a cap.",
            BITS_PER_SECOND,
            Query(f"{_SENT} * 8", _NAME),
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


def _of_jobs(metric: str, *more: str) -> str:
    return f"{once_by_job(f'fairlead_job_{metric}', *more)} {_JOB}"


def _in_phase(phases: str) -> str:
    """1 for each of the chosen jobs that is in one of these phases."""
    selector = f'fairlead_job_phase{{phase=~"{phases}"}}'
    return f"{once_by_job(selector)} {_JOB}"
