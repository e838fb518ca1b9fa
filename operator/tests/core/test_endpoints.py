"""Which endpoints of movers are believed, and what becomes of the others."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st
from job_builders import NOW, make_attached_job, make_job, observe, receiver, seconds, sender, with_plan_applied

from fairlead.api.transferjob.spec import Network
from fairlead.core.endpoints import Surroundings, problem_of, vetted
from fairlead.core.lifecycle import decide
from fairlead.core.observed import MoverPod, NodeFacts, Observed, Role
from fairlead.core.plan import Plan
from fairlead.core.reports import EndpointPlace, MoverEndpoint, Reports

PORT = 24000
OWN = "198.18.0.2"
DATA = "198.19.0.2"
HOLDERS = {"198.18.0.9": "dtn-c"}
NODES = {
    "dtn-a": NodeFacts(exists=True, ready=True, addresses=frozenset({"198.18.0.1"})),
    "dtn-b": NodeFacts(exists=True, ready=True, addresses=frozenset({OWN})),
}


def _receiver(**fields: object) -> MoverPod:
    return receiver(port_base=PORT, addresses=frozenset({OWN, "2001:db8::2"}), **fields)


def _problem(
    address: str, *, port: int = PORT, network: Network = "Host", pod: MoverPod | None = None, nodes: dict[str, NodeFacts] = NODES
) -> str | None:
    return problem_of(MoverEndpoint("data0", address, port), pod or _receiver(), Surroundings(network, nodes, HOLDERS))


@pytest.mark.parametrize("network", ["Host", "Pod", "Attachment"])
@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("127.0.0.1", "loopback"),
        ("127.255.255.254", "loopback"),
        ("::1", "loopback"),
        ("169.254.169.254", "metadata"),
        ("fd00:ec2::254", "metadata"),
        ("100.100.100.200", "metadata"),
        ("168.63.129.16", "metadata"),
        ("169.254.0.1", "link-local"),
        ("fe80::1", "link-local"),
        ("fe80::1%5", "scope"),
        ("fe80::1%eth0", "scope"),
        ("2001:db8::2%1", "scope"),
        ("224.0.0.1", "not the address of a host"),
        ("ff02::1", "not the address of a host"),
        ("0.0.0.0", "not the address of a host"),
        ("0.1.2.3", "not the address of a host"),
        ("255.255.255.255", "not the address of a host"),
        ("240.0.0.1", "not the address of a host"),
        ("::", "not the address of a host"),
        ("::ffff:198.19.0.2", "in the form of IPv6"),
        ("::ffff:169.254.169.254", "in the form of IPv6"),
        ("2002:7f00:1::", "in the form of IPv6"),
        ("fec0::1", "site-local"),
    ],
)
def test_no_pod_has_data_at(network: Network, address: str, said: str) -> None:
    pod = _receiver(attached=frozenset({address}))
    problem = _problem(address, network=network, pod=replace(pod, addresses=frozenset({address})))
    assert problem is not None
    assert said in problem


@pytest.mark.parametrize("network", ["Host", "Pod", "Attachment"])
@pytest.mark.parametrize("port", [0, 22, 6443, PORT + 1, PORT + 2, PORT + 4, 65535])
def test_a_receivers_port_is_the_first_of_its_own_block(network: Network, port: int) -> None:
    pod = _receiver(attached=frozenset({OWN}))
    assert _problem(OWN, network=network, pod=pod) is None
    problem = _problem(OWN, port=port, network=network, pod=pod)
    assert problem is not None
    assert str(PORT) in problem


def test_the_port_of_a_senders_connection_does_not_matter() -> None:
    pod = sender(port_base=PORT, addresses=frozenset({"198.18.0.1"}))
    assert _problem("198.18.0.1", port=51234, pod=pod) is None
    assert _problem("127.0.0.1", port=51234, pod=pod) is not None


@pytest.mark.parametrize(
    ("address", "believed"),
    [(OWN, True), ("2001:db8::2", True), (DATA, False), ("198.18.0.1", False), ("198.18.0.9", False)],
)
def test_on_the_pod_network_the_address_is_the_pods(address: str, believed: bool) -> None:
    assert (_problem(address, network="Pod") is None) is believed


@pytest.mark.parametrize(
    ("attached", "address", "believed"),
    [
        (frozenset({DATA}), DATA, True),
        (frozenset({DATA}), "198.19.0.3", False),
        (frozenset(), DATA, False),
        (None, DATA, True),
        (None, "198.18.0.1", False),
        (None, "198.18.0.9", False),
    ],
)
def test_of_an_attachment_the_network_plugin_knows_the_addresses(attached: frozenset[str] | None, address: str, believed: bool) -> None:
    assert (_problem(address, network="Attachment", pod=_receiver(attached=attached)) is None) is believed


def test_on_the_nodes_network_the_address_is_one_of_the_node_and_never_another_nodes() -> None:
    assert _problem(OWN) is None
    assert _problem(DATA) is None
    for address, node in (("198.18.0.1", "dtn-a"), ("198.18.0.9", "dtn-c")):
        problem = _problem(address)
        assert problem is not None
        assert f"node {node}" in problem


def test_an_administrators_list_is_all_that_a_nodes_data_interfaces_have() -> None:
    listed = NODES | {"dtn-b": replace(NODES["dtn-b"], data_networks=(ip_network("198.19.0.2/32"), ip_network("2001:db8:1::/64")))}
    for address in (DATA, "2001:db8:1::7", OWN):
        assert _problem(address, nodes=listed) is None
    problem = _problem("198.19.0.3", nodes=listed)
    assert problem is not None
    assert "fairlead.io/data-addresses (198.19.0.2/32, 2001:db8:1::/64)" in problem
    others = NODES | {"dtn-a": replace(NODES["dtn-a"], data_networks=(ip_network("198.19.0.1/32"),))}
    problem = _problem("198.19.0.1", nodes=others)
    assert problem is not None
    assert "node dtn-a" in problem
    assert "gives node dtn-b the annotation" in problem, "the remedy where both share a network"


@given(st.ip_addresses(), st.integers(0, 65535), st.sampled_from(["Host", "Pod", "Attachment"]))
def test_every_address_has_an_answer(address: object, port: int, network: Network) -> None:
    problem = _problem(str(address), port=port, network=network)
    assert problem is None or len(problem) < 300


class TestRefusals:
    LIE = MoverEndpoint("data0", "127.0.0.1", 6443)

    def observed(self, **fields: object) -> Observed:
        job = make_job(finalizer=True)
        reports = Reports(receiver_endpoint=self.LIE, sender_endpoint=MoverEndpoint("data0", "198.18.0.1", 40000))
        return observe(job, _receiver(**fields), reports=reports, nodes=NODES)

    def test_take_the_place_of_what_is_refused(self) -> None:
        found = vetted(self.observed(), {}).reports
        assert found.receiver_endpoint is None
        assert [(refusal.role, refusal.reason) for refusal in found.refusals] == [
            ("receiver", "EndpointRefused"),
            ("sender", "EndpointRefused"),
        ]
        assert "127.0.0.1 port 6443, is a loopback address" in found.refusals[0].message

    def test_leave_everything_as_it_is_where_there_are_none(self) -> None:
        honest = replace(self.observed(), reports=Reports(receiver_endpoint=MoverEndpoint("data0", DATA, PORT)))
        assert vetted(honest, HOLDERS) is honest

    def plan(self, age: float) -> tuple[Observed, Plan]:
        observed = vetted(replace(self.observed(created_at=NOW - seconds(age))), {})
        return observed, decide(observed, NOW)

    def test_keep_the_sender_from_being_created_and_are_told_by_two_conditions(self) -> None:
        _, plan = self.plan(30)
        assert not [action for action in plan.creates if action.role is Role.SENDER]
        assert plan.status is not None
        for kind in ("MoversReady", "ReportsBelieved"):
            condition = plan.status.condition(kind)
            assert condition is not None
            assert (condition.status, condition.reason) == ("False", "EndpointRefused")
            assert "127.0.0.1 port 6443" in condition.message
        assert {"MoversNotReady", "ReportRefused"} <= {event.reason for event in plan.events}

    def test_end_the_attempt_once_it_has_taken_too_long(self) -> None:
        _, plan = self.plan(1000)
        assert plan.status is not None
        assert plan.status.last_failure is not None
        assert plan.status.last_failure.reason == "EndpointRefused"
        assert plan.deletes
        assert not plan.creates

    def test_are_over_when_the_mover_reports_what_can_be(self) -> None:
        observed, plan = self.plan(30)
        later = with_plan_applied(replace(observed, reports=Reports(receiver_endpoint=MoverEndpoint("data0", DATA, PORT))), plan)
        plan = decide(later, NOW)
        assert [action.role for action in plan.creates] == [Role.SENDER]
        assert plan.status is not None
        assert plan.status.is_true("ReportsBelieved")


def test_a_job_that_was_never_refused_anything_has_no_such_condition() -> None:
    honest = Reports(receiver_endpoint=MoverEndpoint("data0", DATA, PORT))
    for job in (make_job(finalizer=True), make_attached_job(finalizer=True)):
        plan = decide(vetted(observe(job, _receiver(), reports=honest, nodes=NODES), HOLDERS), NOW)
        assert plan.status is not None
        assert plan.status.condition("ReportsBelieved") is None
        assert plan.creates


@pytest.mark.parametrize("wrong", [("127.0.0.1", PORT, "loopback"), (DATA, PORT + 4, "data port"), ("198.18.0.9", PORT, "dtn-c")])
@pytest.mark.parametrize("at", [0, 1])
def test_of_several_ends_one_that_may_not_be_used_makes_the_endpoint_useless(wrong: tuple[str, int, str], at: int) -> None:
    address, port, said = wrong
    places = [EndpointPlace("data0", OWN, PORT), EndpointPlace("data1", "2001:db8::2", PORT)]
    good = MoverEndpoint("data0", OWN, PORT, several=tuple(places))
    places[at] = EndpointPlace("data1", address, port)
    for endpoint, is_believed in ((good, True), (replace(good, several=tuple(places)), False)):
        found = vetted(observe(make_job(), _receiver(), nodes=NODES, reports=Reports(receiver_endpoint=endpoint)), HOLDERS)
        assert (found.reports.receiver_endpoint is not None) is is_believed
        assert all(said in refusal.message for refusal in found.reports.refusals)
