"""What is true of the watched run by arithmetic and by how the cluster is made, and the queries whose answers must say so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from e2e.lib.policy import LINK, rate_bps
from e2e.lib.watched import (
    ASTRO,
    CAPACITY,
    GENOMICS,
    GUARANTEE,
    KNOWN,
    LONG_FILES,
    SIZES_BYTES,
    SMALL_BYTES,
    TRANSFERS,
    WAITING,
    WEIGHTS,
)

RTT_S: Final = 0.06
"""Of the emulated path: 30 ms each way."""
LEAST_RTT: Final = (RTT_S, 1.2 * RTT_S)
"""What a busy machine adds to most samples it does not add to all of them."""
Answer = Sequence[Mapping[str, Any]]
"""Series with `metric` and `value`."""


@dataclass(frozen=True, slots=True)
class Truth:
    """The bounds within which every series of a query must lie, of which there is at least one."""

    expr: str
    least: float
    most: float

    def is_told_by(self, answer: Answer) -> bool:
        """Whether an answer says so."""
        return bool(answer) and all(self.least <= float(series["value"][1]) <= self.most for series in answer)


def exactly(expr: str, value: float) -> Truth:
    """One number, without blur."""
    return Truth(expr, value, value)


def rate(expr: str, bps: float, least: float = 0.9, most: float = 1.01) -> Truth:
    """A rate in bytes per second, between two parts of `bps`. Caps that moved little are not written at once."""
    return Truth(expr, least * bps / 8, most * bps / 8)


def untold(truths: Iterable[Truth], answers: Mapping[str, Answer]) -> dict[Truth, list[str]]:
    """The truths that answers, by expression, do not tell, with the values that they tell."""
    return {
        truth: [str(series["value"][1]) for series in answers[truth.expr]] for truth in truths if not truth.is_told_by(answers[truth.expr])
    }


def _job(name: str, tenant: str) -> str:
    return f'{{namespace="{tenant}",transferjob="{name}"}}'


def _of_known() -> list[Truth]:
    """One job of four files has succeeded there, and one without a source has failed, each at its first attempt."""
    here = f'namespace="{KNOWN}"'
    finished = "fairlead_operator_jobs_finished_total"
    return [
        exactly(f"fairlead_operator_delivered_bytes_total{{{here}}}", SMALL_BYTES),
        exactly(f'{finished}{{{here},outcome="Succeeded",reason="Verified"}}', 1),
        exactly(f'{finished}{{{here},outcome="Failed",reason="SourceMissing"}}', 1),
        exactly(f"sum({finished}{{{here}}})", 2),
        exactly(f'fairlead_operator_attempts_failed_total{{{here},reason="SourceMissing"}}', 1),
        exactly(f"sum(fairlead_operator_attempts_failed_total{{{here}}})", 1),
        exactly(f"fairlead_operator_resumes_total{{{here}}}", 0),
        exactly(f"fairlead_operator_damaged_blocks_total{{{here}}}", 0),
    ]


def _of_policy() -> list[Truth]:
    """What the policy says, and a job that asks for more than any link will ever have."""
    tenants = [
        each
        for tenant, weight in WEIGHTS.items()
        for each in (
            exactly(f'fairlead_operator_tenant_weight{{tenant="{tenant}"}}', weight),
            exactly(f'fairlead_operator_tenant_guaranteed_bytes_per_second{{tenant="{tenant}"}}', rate_bps(GUARANTEE) / 8),
        )
    ]
    return [
        *tenants,
        exactly(f'fairlead_operator_link_capacity_bytes_per_second{{link="{LINK}"}}', rate_bps(CAPACITY) / 8),
        exactly(f'fairlead_job_waiting{{namespace="{GENOMICS}",transferjob="{WAITING}",reason="GuaranteeTooLarge"}}', 1),
        exactly("fairlead_operator_leading", 1),
    ]


def _of_transfers() -> list[Truth]:
    """What the two transfers are given, by the operator and by their movers."""
    return [
        each
        for name, tenant in TRANSFERS.items()
        for each in (
            exactly(f"fairlead_job_bytes{_job(name, tenant)}", SIZES_BYTES[name]),
            exactly(f"fairlead_mover_bytes{_job(name, tenant)}", SIZES_BYTES[name]),
            exactly(f"fairlead_mover_files{_job(name, tenant)}", LONG_FILES),
            exactly(f'count(fairlead_mover_transport_info{{namespace="{tenant}",transferjob="{name}",protocol="TCP"}})', 1),
        )
    ]


EXACT: Final = (*_of_known(), *_of_policy(), *_of_transfers())
"""While both transfers run under the first policy."""


def _of_path() -> list[Truth]:
    return [
        each
        for name, tenant in TRANSFERS.items()
        for each in (
            Truth(f"fairlead_mover_rtt_seconds{_job(name, tenant)}", RTT_S, 1.5 * RTT_S),
            # Of the whole run: nothing is faster than the path.
            Truth(f"min(min_over_time(fairlead_mover_rtt_minimum_seconds{_job(name, tenant)}[1h]))", *LEAST_RTT),
        )
    ] + [Truth(f'min(min_over_time(fairlead_advisor_rtt_minimum_seconds{{namespace=~"{ASTRO}|{GENOMICS}|{KNOWN}"}}[1h]))', *LEAST_RTT)]


def _shares(bps_by_tenant: Mapping[str, float]) -> list[Truth]:
    """What each tenant is allowed on the link, and what it uses of that: payload, which lacks headers and encryption, on a busy machine."""
    on_link = 'link="{link}",tenant="{tenant}"'.format
    return [
        each
        for tenant, bps in bps_by_tenant.items()
        for each in (
            rate(f"fairlead_operator_link_tenant_allocated_bytes_per_second{{{on_link(link=LINK, tenant=tenant)}}}", bps),
            rate(f"fairlead_operator_link_tenant_measured_bytes_per_second{{{on_link(link=LINK, tenant=tenant)}}}", bps, 0.7, 1.1),
        )
    ]


def _one_job(name: str, tenant: str, bps: float) -> list[Truth]:
    """The whole share of a tenant with one job: as decided, as the kernel has it, as the node's guard holds it, and as it arrives."""
    job = _job(name, tenant)
    return [
        rate(f"fairlead_job_allocated_bytes_per_second{job}", bps),
        rate(f"fairlead_mover_bandwidth_in_force_bytes_per_second{job}", bps),
        rate(f'fairlead_guard_cap_bytes_per_second{{namespace="{tenant}"}}', bps),
        rate(f"fairlead_job_measured_bytes_per_second{job}", bps, 0.7, 1.05),
        rate(f'fairlead_mover_goodput_bytes_per_second{{namespace="{tenant}",transferjob="{name}",role="receiver"}}', bps, 0.7, 1.05),
    ]


_HALF_BPS: Final = rate_bps(CAPACITY) / 2
CROWDED: Final = (
    *_of_path(),
    # Two equal guarantees that together exceed the link are shrunk to halves of it.
    Truth(f'fairlead_operator_link_guarantee_ratio{{link="{LINK}"}}', 0.7, 0.76),
    *_shares({ASTRO: _HALF_BPS, GENOMICS: _HALF_BPS}),
    *_one_job("assembly", GENOMICS, _HALF_BPS),
)
"""What is about so under the first policy. Figures of a moment dip while an advisor holds data back: each must have been so once."""

_WEIGHED_BPS: Final = {tenant: rate_bps(CAPACITY) * weight / sum(WEIGHTS.values()) for tenant, weight in WEIGHTS.items()}
BY_WEIGHT: Final = (
    *_shares(_WEIGHED_BPS),
    *_one_job("assembly", GENOMICS, _WEIGHED_BPS[GENOMICS]),
    Truth(f'fairlead_operator_link_jain_ratio{{link="{LINK}"}}', 0.95, 1.001),
)
"""The same under the second policy."""
