"""What a job may ever get; the shares themselves are tested by rounds and by the allocation's own tests."""

from __future__ import annotations

import pytest
from fairness_builders import G, M, make_job, make_link, make_rules

from fairlead.core.fairness.model import Admission, JobShare, JobStage, Participant
from fairlead.core.fairness.round import RoundInput, RoundMemory, run_round
from fairlead.core.fairness.shares import ceiling_bps
from fairlead.core.paths.model import End

RULES = make_rules(
    make_link(capacity="1G", headroom="10%"),
    make_link("in", node="dtn-b", direction="Receive", capacity="500M"),
    tenants={"bio": {"limit": "200M"}},
)


@pytest.mark.parametrize(
    ("job", "route", "expected_bps"),
    [
        (make_job(), ("out",), 900 * M),
        (make_job(), ("in", "out"), 500 * M),
        (make_job(limit_bps=5 * G), ("out",), 900 * M),
        (make_job(limit_bps=70 * M, namespace="bio"), ("out",), 70 * M),
        (make_job(namespace="bio"), ("out",), 200 * M),
    ],
    ids=["capacity less headroom", "the narrowest link", "a limit above that", "its limit", "its tenant's limit"],
)
def test_a_ceiling_is_what_the_policy_and_the_job_allow_on_an_empty_link(
    job: Participant, route: tuple[str, ...], expected_bps: float
) -> None:
    assert ceiling_bps(RULES, job, route) == expected_bps


def test_a_job_that_crosses_no_link_or_only_waits_has_no_ceiling() -> None:
    elsewhere = make_job("local", source=End("dtn-x", "data0"), destination=End("dtn-y", "data0"))
    waits = make_job("waits", guarantee_bps=5 * G, stage=JobStage.ASKING)
    shares = run_round(RoundInput(RULES, (elsewhere, waits, make_job("runs")), {}, {}), RoundMemory(), 1000.0).job_shares
    assert shares["local"] == JobShare(Admission.ADMITTED)
    assert (shares["waits"].admission, shares["waits"].ceiling_bps) == (Admission.WAITING, None)
    assert shares["runs"].ceiling_bps == 500 * M
