"""Which transport protocol an attempt uses: TCP, unless another one was clearly faster there and nothing speaks against it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from job_builders import make_job
from path_builders import NOW, ago, measured

from fairlead.api.networkpath import NetworkPathStatus
from fairlead.api.networkpath.status import EnginePoint, PathKnowledge
from fairlead.api.shared.quantity import parse_rate
from fairlead.api.transferjob.status import EngineChoice, EngineVerdict, ProtocolInForce
from fairlead.core.paths.engines import (
    BELIEVED,
    LOSSY_FACTOR,
    LOSSY_FLOOR,
    TIE,
    EngineQuestion,
    choose,
    evidence_in,
    is_open,
    prior_of,
    ruled_out,
)
from fairlead.core.paths.merge import merge
from fairlead.core.paths.model import EngineResult

MOST_PRIOR_MEASUREMENTS = 2.5
"""The bound that the rule promises."""
RTTS = [None, 0.0002, 0.004, 0.01, 0.03449, 0.04, 0.08, 0.182, 0.5]


def result(protocol: ProtocolInForce, mbps: float | None, at: datetime = NOW, *, resent: float | None = 0.0, **fields: Any) -> EngineResult:
    known: dict[str, Any] = {"cpu_seconds_per_gb": 4.0, **fields}
    return EngineResult(at, protocol, None if mbps is None else mbps * 1e6, resent_ratio=resent, **known)


def blocked(protocol: ProtocolInForce, at: datetime = NOW) -> EngineResult:
    return EngineResult(at, protocol, None)


def chosen(*results: EngineResult, **fields: Any) -> EngineChoice:
    choice = choose(EngineQuestion(results, **fields))
    assert choice is not None
    return choice


def verdict(choice: EngineChoice, protocol: ProtocolInForce) -> EngineVerdict:
    return next(each.verdict for each in choice.weighed if each.protocol == protocol)


TCP, FAST_QUIC, FAST_UDT = result("TCP", 200), result("QUIC", 800), result("UDT", 800)
SHARE: dict[str, Any] = {"allowed_bps": 1e9, "allocated": True}


def test_what_was_clearly_faster_is_chosen_with_the_figures_that_were_weighed() -> None:
    choice = chosen(result("TCP", 180, resent=0.01), result("TCP", 220, resent=0.03), result("QUIC", 800, resent=0.015))
    assert choice.protocol == "QUIC"
    assert choice.message == "QUIC got 800M on this path in 1 transfer, TCP 200M in 2 transfers"
    assert [(each.protocol, each.goodput, each.measurements, each.resent, each.verdict) for each in choice.weighed] == [
        ("TCP", "200M", 2, "0.02", "Slower"),
        ("QUIC", "800M", 1, "0.015", "Chosen"),
        ("UDT", None, 0, None, "NotMeasured"),
    ]
    assert {each.cpu_seconds_per_gigabyte for each in choice.weighed} == {"4", None}


@pytest.mark.parametrize("results", [(), (TCP,), (TCP, TCP)])
def test_where_nothing_but_tcp_was_measured_nothing_is_weighed(results: tuple[EngineResult, ...]) -> None:
    assert choose(EngineQuestion(results)) is None


@pytest.mark.parametrize(
    ("results", "fields", "of_quic", "of_udt"),
    [
        ((FAST_QUIC,), {}, "NotMeasured", "NotMeasured"),
        ((TCP, result("QUIC", 210)), {}, "Tied", "NotMeasured"),
        ((TCP, result("QUIC", 228)), {}, "Tied", "NotMeasured"),
        ((TCP, result("QUIC", 192)), {}, "Tied", "NotMeasured"),
        ((TCP, result("QUIC", 100)), {}, "Slower", "NotMeasured"),
        ((TCP, blocked("QUIC")), {}, "UdpBlocked", "UdpBlocked"),
        ((TCP, FAST_QUIC, blocked("QUIC")), {}, "UdpBlocked", "UdpBlocked"),
        ((TCP, result("QUIC", 800, resent=0.05)), {}, "UdpLossy", "UdpLossy"),
        ((TCP, FAST_QUIC, FAST_UDT, result("UDT", 700, resent=0.3)), SHARE, "UdpLossy", "UdpLossy"),
        ((TCP, FAST_QUIC), {"cpus": 0.3}, "CpuScarce", "NotMeasured"),
        ((TCP, result("QUIC", 800, cpu_seconds_per_gb=None)), {"cpus": 64}, "CpuScarce", "NotMeasured"),
        ((TCP, FAST_UDT), {}, "NotMeasured", "NeedsCap"),
        ((TCP, FAST_UDT), {"allowed_bps": 1e9}, "NotMeasured", "NeedsCap"),
        ((TCP, FAST_QUIC, FAST_UDT), {"not_allowed": frozenset({"QUIC", "UDT"})}, "NotAllowed", "NotAllowed"),
        ((result("TCP", 95, at_cap=True), FAST_QUIC), {}, "Tied", "NotMeasured"),
        ((result("TCP", 95, at_cap=True), FAST_QUIC), {"allowed_bps": 90e6}, "Tied", "NotMeasured"),
        ((TCP, FAST_QUIC), {"allowed_bps": 205e6}, "Tied", "NotMeasured"),
    ],
    ids=[
        "no TCP to compare with",
        "a little faster",
        "somewhat faster, once",
        "a little slower",
        "slower",
        "never got through",
        "cut after it did well",
        "policed",
        "policed, as the other one saw later",
        "not the processors for it",
        "its cost was never measured",
        "UDT without a cap",
        "UDT below the job's own limit",
        "what else the job asks for",
        "TCP was held back by its cap alone",
        "TCP reached more than is allowed now",
        "TCP reaches what is allowed",
    ],
)
def test_tcp_stays(results: tuple[EngineResult, ...], fields: dict[str, Any], of_quic: str, of_udt: str) -> None:
    choice = chosen(*results, **fields)
    assert (choice.protocol, verdict(choice, "TCP")) == ("TCP", "Chosen")
    assert (verdict(choice, "QUIC"), verdict(choice, "UDT")) == (of_quic, of_udt)
    assert choice.message.startswith("TCP: QUIC ")


@pytest.mark.parametrize(
    ("results", "fields", "expected"),
    [
        ((TCP, FAST_UDT), SHARE, "UDT"),
        ((TCP, result("QUIC", 232)), {}, "QUIC"),
        ((TCP, *[result("QUIC", 218)] * 4), {}, "QUIC"),
        ((TCP, FAST_QUIC), {"cpus": 0.4}, "QUIC"),
        ((TCP, result("QUIC", 800, at_cap=True)), {"cpus": 0.4, "allowed_bps": 800e6}, "QUIC"),
        ((TCP, FAST_QUIC, result("UDT", 830)), SHARE, "QUIC"),
        ((TCP, FAST_QUIC, result("UDT", 850)), SHARE, "UDT"),
        ((TCP, FAST_QUIC, result("UDT", 850)), {"allowed_bps": 500e6, "allocated": True}, "QUIC"),
        ((TCP, blocked("QUIC", ago(days=2)), result("QUIC", 800, ago(days=1))), {}, "QUIC"),
        ((TCP, result("UDT", 800, ago(days=2), resent=0.3), result("QUIC", 800, ago(days=1))), {}, "QUIC"),
        ((result("TCP", 20, resent=0.02), result("QUIC", 800, resent=0.07)), {}, "QUIC"),
    ],
    ids=[
        "UDT within a share",
        "ahead by more than the prior takes off",
        "a little faster, again and again",
        "the processors just suffice",
        "they suffice for all that is allowed",
        "a tie of the others goes to QUIC",
        "UDT clearly ahead",
        "no more than allowed counts",
        "UDP gets through again, as QUIC has shown",
        "UDT saw loss, and QUIC none since",
        "a path that loses, over TCP too",
    ],
)
def test_another_protocol_is_used(results: tuple[EngineResult, ...], fields: dict[str, Any], expected: str) -> None:
    assert chosen(*results, **fields).protocol == expected


def test_where_a_cap_held_a_protocol_back_its_processors_must_suffice_for_all_that_is_allowed() -> None:
    at_cap = result("QUIC", 800, at_cap=True)
    assert verdict(chosen(TCP, at_cap, cpus=0.4, allowed_bps=1.6e9), "QUIC") == "CpuScarce"
    assert verdict(chosen(TCP, FAST_QUIC, cpus=0.4, allowed_bps=1.6e9), "QUIC") == "Chosen"


def test_loss_bars_from_the_factor_and_above_the_floor() -> None:
    for of_tcp, most in ((0.0, LOSSY_FLOOR), (0.001, LOSSY_FLOOR), (0.02, LOSSY_FACTOR * 0.02)):
        at, above = (chosen(result("TCP", 20, resent=of_tcp), result("QUIC", 800, resent=each)) for each in (most, most + 0.001))
        assert (verdict(at, "QUIC"), verdict(above, "QUIC")) == ("Chosen", "UdpLossy")


@pytest.mark.parametrize("rtt", RTTS)
def test_a_prior_is_worth_little_and_chooses_nothing_by_itself(rtt: float | None) -> None:
    protocols: tuple[ProtocolInForce, ...] = ("QUIC", "UDT")
    for protocol in protocols:
        prior = prior_of(protocol, rtt)
        assert 0 < prior.measurements <= MOST_PRIOR_MEASUREMENTS
        assert 0.9 <= prior.ratio <= 1 + TIE
        # Never a veto: what one's own measurements say again and again holds.
        own = [result(protocol, 400), result(protocol, 400), result(protocol, 400)]
        assert chosen(TCP, *own, rtt_seconds=rtt, **SHARE).protocol == protocol


def test_the_prior_of_paced_udp_follows_the_order_that_was_seen_at_each_distance() -> None:
    assert [prior_of("UDT", rtt).ratio for rtt in (0.001, 0.04, 0.182)] == [0.9, 0.9, 1.0]
    assert {prior_of("QUIC", rtt).ratio for rtt in RTTS} == {1.0}


def test_what_is_older_than_a_week_is_forgotten() -> None:
    status = merge(NetworkPathStatus(), measured("1", engine=result("QUIC", 800, NOW - BELIEVED)))
    status = merge(status, measured("2", engine=blocked("UDT", ago(days=8))))
    assert [found.protocol for found in evidence_in(status, NOW).results] == ["QUIC"]


def test_evidence_is_what_was_stored_and_whatever_is_no_number_is_left_out() -> None:
    status = merge(NetworkPathStatus(), measured("1", engine=result("QUIC", 812, resent=0.0021, at_cap=True)))
    known = PathKnowledge(rtt_minimum="60.000ms", engines=status.engines)
    found = evidence_in(known, NOW)
    assert (found.rtt_seconds, found.results) == (0.06, (result("QUIC", 812, resent=0.0021, at_cap=True),))
    good = {"job": "x", "attempt": 1, "protocol": "QUIC", "time": NOW, "goodput": "1G"}
    for wrong in ({"goodput": "fast"}, {"resent": "nan"}, {"resent": "-1"}, {"cpuSecondsPerGigabyte": "much"}):
        assert evidence_in(PathKnowledge(engines=(EnginePoint.model_validate({**good, **wrong}),)), NOW).results == ()


@pytest.mark.parametrize(
    ("transport", "expected"),
    [
        ({}, frozenset()),
        ({"encryption": "None"}, {"QUIC", "UDT"}),
        ({"congestionControl": "cubic"}, {"UDT"}),
        ({"congestionControl": "bbr"}, {"QUIC", "UDT"}),
        ({"congestionControl": "fixed"}, {"QUIC", "UDT"}),
        ({"congestionControl": "blast"}, {"QUIC", "UDT"}),
        ({"congestionControl": "reported"}, {"QUIC", "UDT"}),
    ],
)
def test_what_else_a_job_asks_for_rules_protocols_out(transport: dict[str, Any], expected: set[str]) -> None:
    assert ruled_out(make_job(transport=transport)) == expected


def test_only_a_plain_job_over_one_path_leaves_the_choice() -> None:
    side = {"node": "dtn-a", "volume": {"persistentVolumeClaim": {"claimName": "raw"}}}
    assert is_open(make_job())
    assert not is_open(make_job(transport={"protocol": "TCP"}))
    assert not is_open(make_job(transport={"trafficClass": "Scavenger"}))
    assert not is_open(make_job(source={**side, "interfaces": ["data0", "data1"]}))


RATES = st.floats(min_value=1.0, max_value=1e5)


@st.composite
def questions(draw: st.DrawFn) -> EngineQuestion:
    protocols: st.SearchStrategy[ProtocolInForce] = st.sampled_from(("TCP", "QUIC", "UDT"))
    each = st.builds(
        result,
        protocols,
        st.none() | RATES,
        st.integers(min_value=0, max_value=9).map(lambda hours: ago(hours=hours)),
        resent=st.none() | st.sampled_from([0.0, 0.005, 0.03, 0.5]),
        at_cap=st.booleans(),
        cpu_seconds_per_gb=st.sampled_from([None, 1.0, 9.0]),
    ).filter(lambda found: found.protocol != "TCP" or found.goodput_bps is not None)
    return EngineQuestion(
        tuple(draw(st.lists(each, max_size=9))),
        rtt_seconds=draw(st.sampled_from(RTTS)),
        allowed_bps=draw(st.none() | RATES.map(lambda mbps: mbps * 1e6)),
        allocated=draw(st.booleans()),
        cpus=draw(st.none() | st.floats(min_value=0.1, max_value=64)),
        not_allowed=draw(st.sampled_from([frozenset[ProtocolInForce](), frozenset[ProtocolInForce]({"UDT"})])),
    )


@given(questions())
def test_no_protocol_is_used_without_evidence_or_against_a_bar(question: EngineQuestion) -> None:
    choice = choose(question)
    if choice is None:
        assert all(found.protocol == "TCP" for found in question.results)
        return
    assert [each.protocol for each in choice.weighed] == ["TCP", "QUIC", "UDT"]
    assert [each.protocol for each in choice.weighed if each.verdict == "Chosen"] == [choice.protocol]
    assert len(choice.message) <= 300
    if choice.protocol == "TCP":
        return
    carried = [found for found in question.results if found.protocol == choice.protocol and found.goodput_bps is not None]
    assert carried
    assert any(found.protocol == "TCP" for found in question.results)
    assert choice.protocol not in question.not_allowed
    assert choice.protocol == "QUIC" or (question.allowed_bps is not None and question.allocated)
    of_tcp = [found for found in question.results if found.protocol == "TCP"]
    resent = [found.resent_ratio for found in of_tcp if found.resent_ratio is not None]
    threshold = max(LOSSY_FLOOR, LOSSY_FACTOR * sum(resent) / len(resent)) if resent else LOSSY_FLOOR
    bad = [
        found
        for found in question.results
        if found.protocol != "TCP" and (found.goodput_bps is None or (found.resent_ratio or 0) > threshold)
    ]
    well = [found for found in carried if found not in bad]
    assert not bad or max(found.at for found in well) > max(found.at for found in bad), "it has done well since UDP did badly"
    most, least = max(found.goodput_bps or 0 for found in carried), min(found.goodput_bps or 0 for found in of_tcp)
    assert most > (1 + TIE) * least, "a tie goes to TCP"


@given(questions(), st.data(), st.floats(min_value=1.0, max_value=100.0))
def test_more_goodput_of_a_protocol_never_makes_it_lose(question: EngineQuestion, data: st.DataObject, factor: float) -> None:
    # More goodput takes more processor time; whether that is there is another question.
    question = replace(question, cpus=None)
    choice = choose(question)
    assume(choice is not None)
    assert choice is not None
    own = [index for index, found in enumerate(question.results) if found.protocol == choice.protocol and found.goodput_bps is not None]
    assume(own)
    index = data.draw(st.sampled_from(own))
    found = question.results[index]
    better = replace(found, goodput_bps=(found.goodput_bps or 0) * factor, at_cap=found.at_cap or data.draw(st.booleans()))
    after = choose(replace(question, results=(*question.results[:index], better, *question.results[index + 1 :])))
    assert after is not None
    assert after.protocol == choice.protocol


@given(questions())
def test_the_order_of_the_evidence_means_nothing(question: EngineQuestion) -> None:
    apart = {found.at for found in question.results}
    assume(len(apart) == len(question.results))
    first, second = choose(question), choose(replace(question, results=question.results[::-1]))
    assert first == second


@given(questions())
def test_what_is_shown_of_a_protocol_is_no_more_than_the_job_may_take(question: EngineQuestion) -> None:
    choice = choose(replace(question, allowed_bps=50e6))
    assert all(parse_rate(each.goodput) <= 50e6 for each in (choice.weighed if choice else ()) if each.goodput is not None)
