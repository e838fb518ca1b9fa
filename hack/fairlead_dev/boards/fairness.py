"""The board Fairness: who has the link, who is starved, since when, and why."""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.builders import dashboard as builders

from fairlead_dev.boards.frame import FAIRNESS, board, goodput_link, section
from fairlead_dev.boards.panels import (
    BITS_PER_SECOND,
    COUNT,
    GREEN,
    RATIO,
    RED,
    SECONDS,
    YELLOW,
    Query,
    TableColumn,
    bars,
    graph,
    number,
    once,
    once_by_job,
    rows,
)

_LINK: Final = '{link=~"$link"}'
_TENANT: Final = '{tenant=~"$tenant"}'
_PART: Final = '{link=~"$link", tenant=~"$tenant"}'
_MEASURED: Final = f"fairlead_operator_link_tenant_measured_bytes_per_second{_PART}"
_INFO: Final = 'fairlead_job_info{namespace=~"$namespace", tenant=~"$tenant|"}'
_JOB: Final = f"* on (namespace, transferjob) group_left () {once_by_job(_INFO)}"
"""Keeps the jobs that the variables choose; one that waits may have no tenant yet."""
_WAITS: Final = (
    f"{once_by_job('fairlead_job_waiting', 'reason')} * on (namespace, transferjob) group_left ()"
    f" (time() - {once_by_job('fairlead_job_created_timestamp_seconds')}) {_JOB}"
)
"""How long ago each of the chosen jobs was created that something keeps from starting, by what."""
_JAIN: Final = ((None, RED), (0.8, YELLOW), (0.95, GREEN))


def fairness() -> builders.Dashboard:
    """The board."""
    made = board(FAIRNESS, "Who has the link, who is starved, since when, and why.", "link", "tenant", "namespace")
    section(
        made,
        "Who has the link",
        number(
            "Jain's index",
            "Of the measured rates per weight on the link, the worst of the chosen links: 1 if all jobs have what their weight gives them.",
            COUNT,
            Query(f"min(fairlead_operator_link_jain_ratio{_LINK})"),
            width=4,
            decimals=2,
            steps=_JAIN,
            nothing="no data flows",
        ),
        number(
            "Use of the link",
            "What jobs were measured to use, of what is available to them.",
            RATIO,
            Query(
                f"sum({once(f'fairlead_operator_link_measured_bytes_per_second{_LINK}', 'link')})"
                f" / sum({once(f'fairlead_operator_link_available_bytes_per_second{_LINK}', 'link')})"
            ),
            width=4,
            decimals=0,
            nothing="no jobs",
        ),
        number(
            "Guarantees kept",
            "How much of the guarantees is kept, on the worst of the chosen links: less than 100 % where they exceed what is available.",
            RATIO,
            Query(f"min(fairlead_operator_link_guarantee_ratio{_LINK})"),
            width=4,
            decimals=0,
            steps=((None, RED), (0.99, YELLOW), (1, GREEN)),
        ),
        number(
            "Jobs that wait for the link",
            "Jobs that would cross the chosen links and wait for room.",
            COUNT,
            Query(f"sum({once(f'fairlead_operator_link_jobs_waiting{_LINK}', 'link')})"),
            width=4,
            steps=((None, GREEN), (1, YELLOW)),
            nothing="0",
        ),
        number(
            "Longest wait",
            "Of the jobs that something keeps from starting: how long ago the first of them was created.",
            SECONDS,
            Query(f"max({_WAITS})"),
            width=4,
            decimals=0,
            steps=((None, GREEN), (600, YELLOW), (3600, RED)),
            nothing="nobody waits",
        ),
        number(
            "Others' traffic",
            "What the chosen links carry that is not Fairlead's, where it can be counted.",
            BITS_PER_SECOND,
            Query(f"sum({once(f'fairlead_operator_link_foreign_bytes_per_second{_LINK}', 'link')}) * 8"),
            width=4,
            nothing="not counted",
        ),
        graph(
            "Who has the link",
            "Measured rate by tenant, stacked. Dashed: what the link carries, and what is available to jobs after headroom and others'"
            " traffic.",
            BITS_PER_SECOND,
            Query(f"{once(_MEASURED, 'link', 'tenant')} * 8", "{{link}}: {{tenant}}"),
            Query(f"{once(f'fairlead_operator_link_capacity_bytes_per_second{_LINK}', 'link')} * 8", "{{link}}: capacity"),
            Query(f"{once(f'fairlead_operator_link_available_bytes_per_second{_LINK}', 'link')} * 8", "{{link}}: available"),
            width=16,
            height=10,
            stacked=True,
            dashed=(": capacity", ": available"),
        ),
        bars(
            "Now, by tenant",
            "The tenant's measured rate on the link, at this moment.",
            BITS_PER_SECOND,
            Query(f"{once(_MEASURED, 'link', 'tenant')} * 8", "{{tenant}} on {{link}}"),
            width=8,
            height=10,
            nothing="no jobs",
        ),
    )
    section(
        made,
        "Who is starved, since when, and why",
        rows(
            "Tenants",
            "Used of allowed: how much of the caps of its jobs the tenant uses. Little means that something else than the share holds it"
            " back. A tenant is starved if its jobs wait, or if it has less than its guarantee while it uses all it is allowed.",
            TableColumn("Tenant", label="tenant"),
            TableColumn("Jobs", _of_tenant("jobs"), width=60),
            TableColumn("Waiting", _of_tenant("jobs_waiting"), steps=((None, GREEN), (1, YELLOW)), width=80),
            TableColumn("Weight", _of_tenant("weight"), width=70),
            TableColumn("Guaranteed", f"{_of_tenant('guaranteed_bytes_per_second')} * 8", unit=BITS_PER_SECOND),
            TableColumn("Allowed", f"{_of_tenant('allocated_bytes_per_second')} * 8", unit=BITS_PER_SECOND),
            TableColumn("Measured", f"{_of_tenant('measured_bytes_per_second')} * 8", unit=BITS_PER_SECOND),
            TableColumn(
                "Used of allowed",
                f"{_of_tenant('measured_bytes_per_second')} / ({_of_tenant('allocated_bytes_per_second')} > 0)",
                unit=RATIO,
                steps=((None, YELLOW), (0.5, GREEN)),
                gauge=True,
            ),
            width=14,
            height=8,
            sort_by="Measured",
        ),
        rows(
            "Jobs that wait",
            "What keeps each job from starting, and since when. Reasons are explained in the reference page of TransferJob.",
            TableColumn("Namespace", label="namespace"),
            TableColumn("Job", label="transferjob", links=(goodput_link(),)),
            TableColumn("Reason", label="reason", width=150),
            TableColumn(
                "Waits for",
                _WAITS,
                unit=SECONDS,
                decimals=0,
            ),
            width=10,
            height=8,
            sort_by="Waits for",
        ),
        graph(
            "Measured of allowed, by job",
            "A job that lies low while others are at 100 % is not held back by its share, but by its path, its disk or its source.",
            RATIO,
            Query(
                f"{once_by_job('fairlead_job_measured_bytes_per_second / (fairlead_job_allocated_bytes_per_second > 0)')} {_JOB}",
                "{{namespace}} / {{transferjob}}",
            ),
            width=12,
            usual_most=1,
        ),
        graph(
            "Jain's index over time",
            "Since when it is unfair: where the index falls below 0.8, one job has far more than its weight gives it.",
            COUNT,
            Query(f"min by (link) (fairlead_operator_link_jain_ratio{_LINK})", "{{link}}"),
            Query("min(fairlead_operator_fairness_jain_ratio)", "all links"),
            width=12,
            steps=_JAIN,
            most=1,
        ),
    )
    section(
        made,
        "What was promised",
        graph(
            "Allowed by tenant",
            "What the caps of each tenant's jobs add up to. A step here is a change of the policy, or a job that began or ended.",
            BITS_PER_SECOND,
            Query(
                f"{once(f'fairlead_operator_link_tenant_allocated_bytes_per_second{_PART}', 'link', 'tenant')} * 8", "{{link}}: {{tenant}}"
            ),
            width=12,
        ),
        graph(
            "Above the cap",
            "Share of the time in which more had arrived than a job's cap allows, by namespace. It should be none.",
            RATIO,
            Query(
                'sum by (namespace) (rate(fairlead_operator_cap_exceeded_seconds_total{namespace=~"$namespace"}[$__rate_interval]))'
                ' or max by (namespace) (fairlead_job_info{namespace=~"$namespace"}) * 0',
                "{{namespace}}",
            ),
            width=6,
            usual_most=0.1,
            steps=((None, GREEN), (0.05, RED)),
            nothing="no jobs",
        ),
        graph(
            "Guarantees kept over time",
            "How much of the guarantees on the link is kept.",
            RATIO,
            Query(f"min by (link) (fairlead_operator_link_guarantee_ratio{_LINK})", "{{link}}"),
            width=6,
            most=1,
        ),
    )
    return made


def _of_tenant(what: str) -> str:
    return once(f"fairlead_operator_tenant_{what}{_TENANT}", "tenant")
