"""What the next transfer is told, and who may probe."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from path_builders import NOW, a_background, a_probe, a_transfer, ago, measured

from fairlead.api.networkpath import NetworkPathStatus
from fairlead.core.paths.assignment import FRESH, FRESH_BESIDE_TRANSFERS, assignment_of, knowledge_of
from fairlead.core.paths.merge import merge
from fairlead.core.paths.model import KnownPath, Lease, Probing

EMPTY = NetworkPathStatus()
HELD = Lease("other", 1, NOW + timedelta(seconds=20))
EXPIRED = Lease("dead", 1, NOW)


def _probed(at: datetime) -> NetworkPathStatus:
    return merge(EMPTY, measured(probe=a_probe(at), background=a_background(at)))


@pytest.mark.parametrize(
    ("status", "leases", "busy", "expected"),
    [
        pytest.param(EMPTY, [], False, Probing.OWN, id="nothing is known"),
        pytest.param(EMPTY, [HELD], False, Probing.LEASED, id="another probes"),
        pytest.param(EMPTY, [EXPIRED], False, Probing.OWN, id="the lease of a dead pod has expired"),
        pytest.param(EMPTY, [EXPIRED, HELD], False, Probing.LEASED, id="one lease of two holds"),
        pytest.param(_probed(ago(seconds=30)), [], False, Probing.KNOWN, id="just probed"),
        pytest.param(_probed(ago(seconds=30)), [HELD], False, Probing.KNOWN, id="just probed, and another probes again"),
        pytest.param(_probed(NOW - FRESH), [], False, Probing.KNOWN, id="probed as long ago as may be"),
        pytest.param(_probed(NOW - FRESH - timedelta(seconds=1)), [], False, Probing.OWN, id="probed too long ago"),
        pytest.param(_probed(NOW - FRESH - timedelta(seconds=1)), [], True, Probing.KNOWN, id="a probe would see our own transfer"),
        pytest.param(_probed(NOW - FRESH_BESIDE_TRANSFERS - timedelta(seconds=1)), [], True, Probing.OWN, id="too old even so"),
        pytest.param(_probed(NOW + timedelta(seconds=3)), [], False, Probing.KNOWN, id="a clock a little ahead"),
    ],
)
def test_who_probes(status: NetworkPathStatus, leases: list[Lease], busy: bool, expected: Probing) -> None:
    assert assignment_of(status, None, leases, busy=busy, now=NOW).probing is expected


def test_a_fresh_background_is_handed_on_as_it_was_measured() -> None:
    known = assignment_of(_probed(ago(seconds=30)), None, [], busy=False, now=NOW).known
    assert known.background is not None
    assert known.background.class_name == "B1-C0"
    assert sum(known.background.probabilities.values()) == pytest.approx(1, abs=0.001)
    assert (known.background.measured_at, known.background.model) == (ago(seconds=30), "background-1.0.0 (sha256:0123456789ab)")
    assert known.rtt_minimum_seconds == 0.06


def test_an_old_background_is_kept_back_and_the_least_rtt_is_not() -> None:
    known = assignment_of(_probed(ago(hours=2)), None, [HELD], busy=False, now=NOW).known
    assert known == KnownPath(rtt_minimum_seconds=0.06)


@pytest.mark.parametrize(
    ("measured_bps", "declared_bps", "expected"),
    [(None, None, None), (None, 10**9, 1e9), (2e8, None, 2e8), (2e8, 10**9, 2e8), (2e9, 10**9, 1e9)],
)
def test_the_capacity_is_what_was_got_and_never_more_than_declared(
    measured_bps: float | None, declared_bps: int | None, expected: float | None
) -> None:
    status = EMPTY if measured_bps is None else merge(EMPTY, measured(transfer=a_transfer(rate=measured_bps)))
    assert assignment_of(status, declared_bps, [], busy=False, now=NOW).known.capacity_bps == expected


@pytest.mark.parametrize(("busy", "beside_own", "expected"), [(False, False, False), (True, False, True), (False, True, True)])
def test_a_sender_is_told_whether_others_of_ours_are_there(busy: bool, beside_own: bool, expected: bool) -> None:
    assignment = assignment_of(_probed(ago(seconds=30)), None, [], busy=busy, beside_own=beside_own, now=NOW)
    assert (assignment.probing, assignment.known.beside_own) == (Probing.KNOWN, expected)


def test_what_was_learnt_of_streams_is_handed_on_in_the_advisors_unit_for_a_week() -> None:
    def coefficient(at: datetime) -> float | None:
        status = merge(EMPTY, measured(transfer=a_transfer(at, coefficient=1.2e-6)))
        return assignment_of(status, None, [], busy=False, now=NOW).known.stream_coefficient

    assert coefficient(ago(days=6)) == pytest.approx(1.2e-6)
    assert coefficient(ago(days=8)) is None


@pytest.mark.parametrize("probabilities", [{}, {"B1-C0": "0.9"}, {"B1-C0": "1", "B0-C0": "1"}], ids=["none", "too little", "too much"])
def test_what_is_no_distribution_is_as_if_nobody_had_looked(probabilities: dict[str, str]) -> None:
    status = merge(EMPTY, measured(background=a_background(NOW)))
    assert status.background is not None
    spoilt = status.model_copy(update={"background": status.background.model_copy(update={"probabilities": probabilities})})
    assert assignment_of(status, None, [], busy=False, now=NOW).probing is Probing.KNOWN
    assignment = assignment_of(spoilt, None, [], busy=False, now=NOW)
    assert (assignment.probing, assignment.known) == (Probing.OWN, KnownPath())


def test_a_status_that_somebody_spoilt_is_not_handed_on() -> None:
    status = _probed(NOW)
    assert status.background is not None
    spoilt = status.background.model_copy(update={"confidence": "high"})
    known = assignment_of(
        status.model_copy(update={"background": spoilt, "capacity": "fast", "rtt_minimum": "short"}), None, [], busy=False, now=NOW
    )
    assert known.known == KnownPath()


def _by_namespaces(**coefficients: float) -> NetworkPathStatus:
    status = EMPTY
    for number, (namespace, coefficient) in enumerate(coefficients.items()):
        transfer = a_transfer(ago(hours=number), rate=coefficient * 1e14, coefficient=coefficient)
        parts = {"probe": a_probe(), "background": a_background(), "transfer": transfer}
        status = merge(status, measured(f"job-{namespace}", namespace=namespace, **parts))
    return status


@pytest.mark.parametrize(
    ("status", "coefficient"),
    [
        pytest.param(EMPTY, None, id="nobody was there"),
        pytest.param(_by_namespaces(mine=2e-6, one=9e-6, two=9e-6), 2e-6, id="its own"),
        pytest.param(_by_namespaces(one=9e-6), None, id="one stranger"),
        pytest.param(_by_namespaces(one=9e-6, two=3e-6), 3e-6, id="the lesser of two strangers"),
        pytest.param(_by_namespaces(one=9e-6, two=3e-6, three=4e-6), 4e-6, id="the middle of three strangers"),
    ],
)
def test_a_job_is_given_what_its_own_namespace_measured_and_a_hint_where_several_others_did(
    status: NetworkPathStatus, coefficient: float | None
) -> None:
    known = assignment_of(knowledge_of(status, "mine", NOW), None, [], busy=False, now=NOW).known
    assert known.stream_coefficient == coefficient
    assert known.capacity_bps == (None if coefficient is None else pytest.approx(coefficient * 1e14))
    own = any(each.namespace == "mine" for each in status.namespaces)
    assert (known.background is not None, known.rtt_minimum_seconds is not None) == (own, own)


def test_a_hint_makes_nobody_probe_less() -> None:
    status = _by_namespaces(one=9e-6, two=3e-6)
    assert assignment_of(knowledge_of(status, "mine", NOW), None, [], busy=True, now=NOW).probing is Probing.OWN
    assert assignment_of(knowledge_of(status, "one", NOW), None, [], busy=True, now=NOW).probing is Probing.KNOWN
    late = NOW + timedelta(days=8)
    assert knowledge_of(status, "mine", late).stream_coefficient is None
