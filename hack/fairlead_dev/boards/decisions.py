"""The board Decisions: what is on the paths, what was chosen and how sure, what looking cost, and what was changed on the way."""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.builders import bargauge, stat
from grafana_foundation_sdk.builders import dashboard as builders

from fairlead_dev.boards.frame import DECISIONS, board, goodput_link, section
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
    gained,
    graph,
    number,
    once_by_job,
    rows,
)

_INFO: Final = 'fairlead_job_info{namespace=~"$namespace", source_node=~"$node", transferjob=~"$job"}'
_JOB: Final = f"* on (namespace, transferjob) group_left () {once_by_job(_INFO)}"
"""Keeps the jobs that the variables choose."""
_NAME: Final = "{{namespace}} / {{transferjob}}"
_ADVISOR: Final = '{namespace=~"$namespace", node=~"$node", transferjob=~"$job"}'
"""An advisor runs on the source node."""
_DECISIONS: Final = "fairlead_operator_decisions_total"
_ABSTAINED: Final = '{reason=~"Unsure|NoModel|ProbeFailed"}'
_RANGE: Final = "$__range"


def decisions() -> builders.Dashboard:
    """The board."""
    made = board(DECISIONS, "What was seen on the paths, what was chosen and why, and what it cost.", "namespace", "node", "job")
    section(
        made,
        "In the chosen time",
        number(
            "Decisions",
            "Decisions of advisors in the chosen time.",
            COUNT,
            Query(f"{gained(_DECISIONS, _RANGE)} or vector(0)"),
            width=4,
            decimals=0,
            nothing="0",
        ),
        number(
            "Abstained",
            "Share of the decisions for which the advisor made no prediction: unsure, without a model, or the probe failed. The job"
            " then has CUBIC and four streams.",
            RATIO,
            Query(f"({gained(_DECISIONS + _ABSTAINED, _RANGE)} or vector(0)) / ({gained(_DECISIONS, _RANGE)} > 0)"),
            width=4,
            decimals=0,
            steps=((None, GREEN), (0.5, YELLOW), (0.8, RED)),
            nothing="no decisions",
        ),
        _so_far("Looks", "Looks at the path in mid-transfer, of the jobs that run.", "fairlead_advisor_looks_total"),
        _so_far(
            "Time for looks",
            "For how long data stood still for looks, of the jobs that run.",
            "fairlead_advisor_quiet_seconds_total",
            SECONDS,
            nothing="0 s",
        ),
        _so_far("Switches", "Changes of congestion control in mid-transfer, of the jobs that run.", "fairlead_advisor_switches_total"),
        _so_far(
            "Trials of stream counts", "Other stream counts that were tried, of the jobs that run.", "fairlead_advisor_stream_trials_total"
        ),
        _decided(
            "What was on the paths",
            "Decisions by class of the background traffic: the numbers of BBR and CUBIC flows. None: nothing was classified.",
            "background",
        ),
        _decided("What was chosen", "Decisions by congestion control.", "congestion_control"),
        _decided("Why", "Decisions by reason; how-to/explain-a-decision says what each one means.", "reason"),
    )
    section(
        made,
        "Jobs",
        rows(
            "Decisions of the jobs that run",
            "What each job was given and why. A job's name leads to its goodput.",
            TableColumn(
                "",
                once_by_job(_INFO, "source_node", "destination_node", "background", "congestion_control", "protocol", "decision"),
            ),
            TableColumn("Namespace", label="namespace"),
            TableColumn("Job", label="transferjob", links=(goodput_link(),)),
            TableColumn("From", label="source_node"),
            TableColumn("To", label="destination_node"),
            TableColumn("Background", label="background"),
            TableColumn("Congestion control", label="congestion_control"),
            TableColumn("Protocol", label="protocol"),
            TableColumn("Why", label="decision"),
            TableColumn("Streams", f"{once_by_job('fairlead_advisor_decision_streams')} {_JOB}", width=90),
            TableColumn("Goodput", f"{once_by_job('fairlead_job_measured_bytes_per_second')} {_JOB} * 8", unit=BITS_PER_SECOND),
            width=24,
            sort_by="Goodput",
        ),
        graph(
            "Confidence",
            "Confidence of the classification that each decision rests on. Jobs without one abstained, or have a choice of their own.",
            RATIO,
            Query(once_by_job(f"fairlead_advisor_decision_confidence_ratio{_ADVISOR}"), _NAME),
            width=8,
            most=1,
        ),
        graph(
            "Estimated regret",
            "Expected share lost by the choice in force against the best of all that were weighed, those that the kernel lacks too.",
            RATIO,
            Query(once_by_job(f"fairlead_advisor_decision_regret_ratio{_ADVISOR}"), _NAME),
            width=8,
            most=1,
        ),
        graph(
            "Probability of each background",
            "What the classifier holds for likely, of all jobs that run: the largest probability of each class.",
            RATIO,
            Query(f"max by (background) (fairlead_advisor_background_probability_ratio{_ADVISOR})", "{{background}}"),
            width=8,
            most=1,
        ),
        graph(
            "RTT: idle path and under load",
            "Dashed: the least RTT of the probe before the transfer. Solid: the streams' RTT now.",
            SECONDS,
            Query(once_by_job(f"fairlead_advisor_rtt_minimum_seconds{_ADVISOR}"), _NAME + ": idle"),
            Query(once_by_job(f"fairlead_advisor_transfer_rtt_seconds{_ADVISOR}"), _NAME + ": now"),
            width=12,
            dashed=(": idle",),
        ),
        graph(
            "Streams: decided and open",
            "Dashed: the count that stands. Solid: streams that the mover has open.",
            COUNT,
            Query(once_by_job(f"fairlead_advisor_decision_streams{_ADVISOR}"), _NAME + ": decided"),
            Query(once_by_job(f"fairlead_advisor_transfer_streams{_ADVISOR}"), _NAME + ": open"),
            width=12,
            dashed=(": decided",),
        ),
        graph(
            "Samples that found a queue",
            "Share of RTT samples during the transfer that found a queue on the path.",
            RATIO,
            Query(once_by_job(f"fairlead_advisor_path_busy_ratio{_ADVISOR}"), _NAME),
            width=12,
            most=1,
        ),
        graph(
            "Held back by a buffer",
            "Share of the time under way in which a buffer of the hosts alone held the streams back: more of the network would not help.",
            RATIO,
            Query(once_by_job(f"fairlead_advisor_transfer_held_back_ratio{_ADVISOR}", "by"), _NAME + ": {{by}}"),
            width=12,
            most=1,
        ),
    )
    return made


def _so_far(title: str, description: str, metric: str, unit: str = COUNT, *, nothing: str = "0") -> stat.Panel:
    """What a counter of the advisors has come to, for the jobs that run."""
    return number(title, description, unit, Query(f"sum({metric}{_ADVISOR}) or vector(0)"), width=4, decimals=0, nothing=nothing)


def _decided(title: str, description: str, label: str) -> bargauge.Panel:
    """The decisions of the chosen time by one of their labels."""
    query = Query(f"{gained(_DECISIONS, _RANGE, label)} > 0", f"{{{{{label}}}}}")
    return bars(title, description, COUNT, query, width=8, height=6)
