"""What keeps a job's cap from being higher, as its status names it."""

from __future__ import annotations

import math

from fairness_builders import M, make_job, make_link, make_rules

from fairlead.core.fairness.bounds import bounds_of
from fairlead.core.fairness.model import Bound, JobStage
from fairlead.core.fairness.round import RoundInput, RoundMemory, run_round

RULES = make_rules(make_link(), make_link("in", node="dtn-b", direction="Receive", capacity="500M"), tenants={"bio": {"limit": "200M"}})
AVAILABLE = {"out": 1000 * M, "in": 500 * M}
BOTH = ("in", "out")


def test_the_bottleneck_is_the_link_that_is_fullest_by_its_own_measure() -> None:
    jobs = [make_job("one"), make_job("two")]
    routes = {"one": BOTH, "two": ("out",)}
    found = bounds_of(RULES, AVAILABLE, routes, {"one": 490 * M, "two": 10 * M}, jobs)
    assert found == {"one": Bound("Link", "others", "in"), "two": Bound("Link", "others", "out")}


def test_a_job_at_its_own_limit_has_no_bottleneck() -> None:
    job = make_job("one", limit_bps=123_456_789.0)
    assert bounds_of(RULES, AVAILABLE, {"one": BOTH}, {"one": 123_400_000.0}, [job]) == {"one": Bound("JobLimit", "others")}


def test_a_tenant_that_has_all_of_its_limit_is_what_bounds_its_jobs() -> None:
    jobs = [make_job("one", namespace="bio"), make_job("two", namespace="bio"), make_job("three")]
    routes = {"one": BOTH, "two": ("in",), "three": BOTH}
    found = bounds_of(RULES, AVAILABLE, routes, {"one": 100 * M, "two": 100 * M, "three": 300 * M}, jobs)
    assert found["one"] == found["two"] == Bound("TenantLimit", "bio", "in")
    assert found["three"] == Bound("Link", "others", "in")


def test_a_round_gives_a_bound_to_the_jobs_that_cross_a_link_and_run() -> None:
    waits = make_job("waits", guarantee_bps=5000 * M, stage=JobStage.ASKING)
    jobs = (make_job("runs"), waits, make_job("endless", limit_bps=math.inf))
    shares = run_round(RoundInput(RULES, jobs, {}, {}), RoundMemory(), 1000.0).job_shares
    assert shares["runs"].bound == shares["endless"].bound == Bound("Link", "others", "in")
    assert shares["waits"].bound is None
