"""Every metric of links and tenants, by its value after a round whose outcome is known."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
from metric_samples import value_of
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import CollectorRegistry

from fairlead.core.allocation import Allocation, LinkShare
from fairlead.core.fairness.model import Admissions, JobStage, Participant
from fairlead.core.fairness.round import RoundMemory, RoundResult
from fairlead.core.fairness.rules import LinkRule, PolicyRules, TenantRule
from fairlead.core.fairness.settle import Cap
from fairlead.core.paths.model import End
from fairlead.handlers.fairness.metrics import SHARING_METRICS, FairnessMetrics

Labels = Mapping[str, str]


def job(name: str, namespace: str, stage: JobStage = JobStage.FLOWING, weight: int = 100) -> Participant:
    return Participant(name, namespace, name, End("dtn-a", "data0"), End("dtn-b", "data0"), stage, weight)


RULES = PolicyRules(
    links={
        "wan": LinkRule("wan", frozenset({("dtn-a", "data0", "Transmit")}), 1600.0, 80.0, 0.0),
        "lan": LinkRule("lan", frozenset({("dtn-b", "data0", "Receive")}), 8000.0, 0.0, 0.0),
    },
    tenants={"astro": TenantRule("astro", 2.0, 320.0, 1200.0, 1), "bio": TenantRule("bio", 1.0, 0.0, math.inf, 1)},
    tenant_of={"sky": "astro", "cells": "bio"},
    links_by_end={},
)
ROUTES = {"a1": ("wan",), "a2": ("wan", "lan"), "b1": ("wan",), "b2": ("wan",), "b3": ("lan",)}
OUTCOME = RoundResult(
    job_shares={},
    memory=RoundMemory(caps={"a1": Cap(640.0), "a2": Cap(160.0), "b1": Cap(400.0)}),
    admissions=Admissions(),
    routes=ROUTES,
    sharing=(job("a1", "sky", weight=300), job("a2", "sky"), job("b1", "cells")),
    lanes=(job("a1", "sky", weight=300), job("a2", "sky"), job("b1", "cells")),
    asking=(job("b2", "cells", JobStage.ASKING), job("b3", "cells", JobStage.ASKING)),
    available_bps={"wan": 1200.0, "lan": 8000.0},
    # What others send on the LAN cannot be counted.
    foreign_bps={"wan": 320.0},
    measured_bps={"a1": 480.0, "b1": 160.0},
    caps_bps={"a1": 640.0, "a2": 160.0, "b1": 400.0},
    fair=Allocation(
        {}, {"wan": LinkShare(1600.0, 1200.0, 1200.0, 0.75, 1.0), "lan": LinkShare(8000.0, 8000.0, 160.0, 1.0, 1.0)}, {}, 1.0, 3
    ),
    again_seconds=5.0,
)
JAIN = (480 / 2 + 160) ** 2 / (2 * ((480 / 2) ** 2 + 160**2))
"""By hand, of 480 for the weight 2 and 160 for the weight 1."""

WAN, LAN, ASTRO, BIO = {"link": "wan"}, {"link": "lan"}, {"tenant": "astro"}, {"tenant": "bio"}
ALL: Labels = {}
EXPECTED: Mapping[str, list[tuple[Labels, float | None]]] = {
    "fairlead_operator_link_capacity_bytes_per_second": [(WAN, 200), (LAN, 1000)],
    "fairlead_operator_link_available_bytes_per_second": [(WAN, 150), (LAN, 1000)],
    "fairlead_operator_link_foreign_bytes_per_second": [(WAN, 40), (LAN, None)],
    "fairlead_operator_link_guarantee_ratio": [(WAN, 0.75), (LAN, 1)],
    "fairlead_operator_link_jobs": [(WAN, 3), (LAN, 1)],
    "fairlead_operator_link_jobs_waiting": [(WAN, 1), (LAN, 1)],
    "fairlead_operator_link_allocated_bytes_per_second": [(WAN, 150), (LAN, 20)],
    "fairlead_operator_link_measured_bytes_per_second": [(WAN, 80), (LAN, 0)],
    "fairlead_operator_link_jain_ratio": [(WAN, JAIN), (LAN, None)],
    "fairlead_operator_tenant_jobs": [(ASTRO, 2), (BIO, 1)],
    "fairlead_operator_tenant_jobs_waiting": [(ASTRO, 0), (BIO, 2)],
    "fairlead_operator_tenant_allocated_bytes_per_second": [(ASTRO, 100), (BIO, 50)],
    "fairlead_operator_tenant_measured_bytes_per_second": [(ASTRO, 60), (BIO, 20)],
    "fairlead_operator_tenant_jain_ratio": [(ASTRO, 1), (BIO, 1)],
    "fairlead_operator_tenant_weight": [(ASTRO, 2), (BIO, 1)],
    "fairlead_operator_tenant_guaranteed_bytes_per_second": [(ASTRO, 40), (BIO, 0)],
    "fairlead_operator_tenant_limit_bytes_per_second": [(ASTRO, 150), (BIO, None)],
    "fairlead_operator_link_tenant_jobs": [(WAN | ASTRO, 2), (WAN | BIO, 1), (LAN | ASTRO, 1), (LAN | BIO, None)],
    "fairlead_operator_link_tenant_allocated_bytes_per_second": [(WAN | ASTRO, 100), (WAN | BIO, 50), (LAN | ASTRO, 20)],
    "fairlead_operator_link_tenant_measured_bytes_per_second": [(WAN | ASTRO, 60), (WAN | BIO, 20), (LAN | ASTRO, 0)],
    "fairlead_operator_fairness_jobs_waiting": [(ALL, 2)],
    "fairlead_operator_fairness_jobs_approximated": [(ALL, 3)],
    "fairlead_operator_fairness_jain_ratio": [(ALL, JAIN)],
}
OF_ROUNDS = {"fairlead_operator_fairness_round_duration_seconds", "fairlead_operator_fairness_errors_total"}
"""See `test_fairness_loop.py`."""


class Page:
    """The exposition of the fairness loop's metrics."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.leads = True
        self.metrics = FairnessMetrics(self._registry, lambda: self.leads)

    def value(self, name: str, labels: Labels = ALL) -> float | None:
        return value_of(generate_latest(self._registry).decode(), name, labels)


def test_every_metric_of_links_and_tenants_has_the_value_of_the_round() -> None:
    page = Page()
    page.metrics.show(RULES, OUTCOME)
    for name, samples in EXPECTED.items():
        for labels, value in samples:
            assert page.value(name, labels) == (None if value is None else pytest.approx(value)), (name, labels)
    assert EXPECTED.keys() | OF_ROUNDS == {described.name for described in SHARING_METRICS}


def test_without_a_policy_there_are_no_links_and_tenants() -> None:
    page = Page()
    page.metrics.show(RULES, OUTCOME)
    page.metrics.show(None, None)
    assert [name for name, samples in EXPECTED.items() for labels, _ in samples if page.value(name, labels) is not None] == []


def test_an_operator_that_does_not_lead_shows_no_links_and_tenants() -> None:
    page = Page()
    page.metrics.show(RULES, OUTCOME)
    page.leads = False
    assert [name for name, samples in EXPECTED.items() for labels, _ in samples if page.value(name, labels) is not None] == []
    page.metrics.count_error("Conflict")
    assert page.value("fairlead_operator_fairness_errors_total", {"kind": "Conflict"}) == 1
