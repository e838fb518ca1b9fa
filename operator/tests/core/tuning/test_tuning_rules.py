"""What each rule finds, what satisfies it, and what it does not judge for want of facts."""

from __future__ import annotations

from typing import Any

import pytest
from tuning_builders import GOOD_KERNEL, a_measured_path

from fairlead.api.datatransfernode.status import BondStatus, KernelStatus
from fairlead.core.tuning.facts import FarEnd, HostFacts, MeasuredPath, TunedInterface
from fairlead.core.tuning.rules import LARGEST_BUFFER_BYTES, RULES, TuningFinding, TuningRule, buffer_bytes

G = 10**9


def _kernel(**parts: Any) -> KernelStatus:
    return GOOD_KERNEL.model_copy(update=parts)


def _one(rule: TuningRule, facts: HostFacts) -> TuningFinding:
    findings = RULES[rule](facts)
    assert findings is not None
    (finding,) = findings
    assert finding.rule is rule
    assert finding.why and finding.command
    return finding


@pytest.mark.parametrize("rule", TuningRule)
def test_what_is_not_known_is_not_judged(rule: TuningRule) -> None:
    assert RULES[rule](HostFacts()) is None
    assert RULES[rule](HostFacts(interfaces=(TunedInterface("data0"),))) is None


@pytest.mark.parametrize("rule", TuningRule)
def test_a_host_that_is_set_up_well_has_no_findings(rule: TuningRule) -> None:
    interface = TunedInterface(
        "data0",
        10 * G,
        9000,
        9000,
        numa_node=1,
        network="wan",
        bond=BondStatus(name="bond0", members=2, hash_policy="layer3+4"),
        is_reported=True,
        qdisc="fq",
        interrupt_cpus=frozenset({4, 5}),
    )
    facts = HostFacts(
        kernel=GOOD_KERNEL,
        interfaces=(interface,),
        numa_cpus={1: frozenset({4, 5, 6, 7})},
        paths=(a_measured_path(),),
        largest_mtu={"wan": FarEnd("dtn-b", "data0", 10 * G, 9000)},
    )
    assert RULES[rule](facts) == ()


@pytest.mark.parametrize(
    ("rate_bps", "rtt_seconds", "needed"),
    [(10 * G, 0.0118, 29_500_000), (10 * G, 0.0916, 229_000_000), (10 * G, 0.366, 915_000_000), (200 * 10**6, 0.06, 3_000_000)],
)
def test_buffers_are_twice_the_bandwidth_delay_product(rate_bps: int, rtt_seconds: float, needed: int) -> None:
    assert buffer_bytes(a_measured_path(rtt_seconds, rate_bps)) == needed


def test_buffers_that_are_too_small_are_named_and_raised_to_the_next_power_of_two() -> None:
    kernel = _kernel(tcp_receive_buffer_maximum_bytes=6291456, receive_buffer_maximum_bytes=212992)
    finding = _one(TuningRule.SOCKET_BUFFERS, HostFacts(kernel, paths=(a_measured_path(0.0916, 10 * G),)))
    assert finding.found == "net.core.rmem_max 208 KiB, net.ipv4.tcp_rmem 6 MiB"
    assert finding.recommended == "256 MiB each"
    assert finding.command == "sysctl -w net.core.rmem_max=268435456 net.ipv4.tcp_rmem='4096 131072 268435456'"
    assert "a-b: 10G x 92 ms" in finding.why


@pytest.mark.parametrize(("set_bytes", "found"), [(249_999_999, True), (250_000_000, False)])
def test_buffers_of_exactly_what_is_needed_suffice(set_bytes: int, found: bool) -> None:
    kernel = KernelStatus(tcp_send_buffer_maximum_bytes=set_bytes)
    assert bool(RULES[TuningRule.SOCKET_BUFFERS](HostFacts(kernel, paths=(a_measured_path(0.1, 10 * G),)))) is found


def test_no_buffer_is_asked_for_that_the_kernel_cannot_have() -> None:
    paths = (a_measured_path(0.9, 400 * G),)
    finding = _one(TuningRule.SOCKET_BUFFERS, HostFacts(KernelStatus(tcp_send_buffer_maximum_bytes=4194304), paths=paths))
    assert str(LARGEST_BUFFER_BYTES) in finding.command
    largest = KernelStatus(tcp_send_buffer_maximum_bytes=LARGEST_BUFFER_BYTES)
    assert RULES[TuningRule.SOCKET_BUFFERS](HostFacts(largest, paths=paths)) == ()


def test_the_longest_path_is_that_with_the_most_in_flight() -> None:
    near, far = a_measured_path(0.01, 100 * G, name="near"), a_measured_path(0.2, 1 * G, name="far")
    unknown = a_measured_path(0.9, None, name="unknown")
    facts = HostFacts(paths=(far, near, unknown))
    assert facts.longest_path is near
    assert HostFacts(paths=(unknown,)).longest_path is None


@pytest.mark.parametrize(
    ("interface", "paths", "wanted", "why"),
    [
        (TunedInterface("data0", mtu=1500, declared_mtu=9000), (), "9000", "declares"),
        (TunedInterface("data0", mtu=9000, declared_mtu=1500), (), "1500", "declares"),
        (TunedInterface("data0", mtu=1500, network="wan"), (), "8900", "data1 of dtn-c"),
        (TunedInterface("data0", mtu=1500), (a_measured_path(),), "9000", "data0 of dtn-b"),
        (TunedInterface("data0", 10 * G, mtu=1500), (), "9000", "declare mtu 1500"),
    ],
)
def test_an_mtu_follows_the_declared_one_then_the_peers_then_the_rate(
    interface: TunedInterface, paths: tuple[MeasuredPath, ...], wanted: str, why: str
) -> None:
    facts = HostFacts(interfaces=(interface,), paths=paths, largest_mtu={"wan": FarEnd("dtn-c", "data1", None, 8900)})
    finding = _one(TuningRule.MTU, facts)
    assert (finding.recommended, finding.interface) == (wanted, "data0")
    assert finding.command == f"ip link set dev data0 mtu {wanted}"
    assert why in finding.why


@pytest.mark.parametrize("policy", ["layer2", "layer2+3", "encap2+3", "vlan+srcmac"])
def test_a_bond_that_does_not_tell_streams_apart_is_named_with_what_one_member_carries(policy: str) -> None:
    bond = BondStatus(name="bond0", members=4, hash_policy=policy)
    finding = _one(TuningRule.BONDING, HostFacts(interfaces=(TunedInterface("bond0.100", 40 * G, bond=bond, is_reported=True),)))
    assert (finding.interface, finding.found) == ("bond0.100", f"xmit_hash_policy {policy} over 4 members")
    assert "by one member of 10G" in finding.why
    assert finding.command == "echo layer3+4 > /sys/class/net/bond0/bonding/xmit_hash_policy"


@pytest.mark.parametrize(
    "bond",
    [
        None,
        BondStatus(name="bond0", members=1, hash_policy="layer2"),
        BondStatus(name="bond0", members=2),
        BondStatus(name="bond0", members=2, hash_policy="encap3+4"),
    ],
    ids=["none", "of one member", "without a policy", "that looks at ports in tunnels"],
)
def test_a_bond_that_tells_streams_apart_or_has_one_member_is_left_alone(bond: BondStatus | None) -> None:
    facts = HostFacts(interfaces=(TunedInterface("data0", 40 * G, bond=bond, is_reported=True),))
    assert RULES[TuningRule.BONDING](facts) == ()


@pytest.mark.parametrize(
    "interface",
    [
        TunedInterface("data0", 10 * G, mtu=1500, declared_mtu=1500),
        TunedInterface("data0", 1 * G, mtu=1500),
        TunedInterface("data0", mtu=1500),
        TunedInterface("data1", mtu=1500, network="lan"),
    ],
)
def test_a_small_mtu_that_somebody_declared_or_that_nothing_speaks_against_is_left_alone(interface: TunedInterface) -> None:
    paths = (a_measured_path(),) if interface.name == "data1" else ()
    assert RULES[TuningRule.MTU](HostFacts(interfaces=(interface,), paths=paths)) == ()


def test_of_two_ends_the_one_with_the_larger_mtu_is_left_alone() -> None:
    facts = HostFacts(interfaces=(TunedInterface("data0", mtu=9000),), paths=(a_measured_path(far=FarEnd("dtn-b", "data0", None, 1500)),))
    assert RULES[TuningRule.MTU](facts) == ()


def test_a_congestion_control_that_is_not_allowed_is_named_and_loaded_where_it_is_missing() -> None:
    finding = _one(TuningRule.CONGESTION_CONTROLS, HostFacts(_kernel(allowed_congestion_controls=("reno", "bbr"))))
    assert finding.command == "sysctl -w net.ipv4.tcp_allowed_congestion_control='bbr cubic reno'"
    bare = _kernel(allowed_congestion_controls=("reno", "cubic"), congestion_controls=("reno", "cubic"))
    finding = _one(TuningRule.CONGESTION_CONTROLS, HostFacts(bare))
    assert finding.command == "modprobe tcp_bbr && sysctl -w net.ipv4.tcp_allowed_congestion_control='bbr cubic reno'"
    assert "cannot choose bbr" in finding.why


def test_interrupts_belong_on_the_cards_own_numa_node() -> None:
    cpus = {0: frozenset({0, 1, 2, 3}), 1: frozenset({4, 5, 6, 7})}
    interface = TunedInterface("data0", numa_node=1, interrupt_cpus=frozenset({0, 4}))
    finding = _one(TuningRule.INTERRUPTS, HostFacts(interfaces=(interface,), numa_cpus=cpus))
    assert (finding.found, finding.recommended) == ("on CPUs 0,4", "on CPUs 4-7")
    assert "/sys/class/net/data0/device/msi_irqs" in finding.command
    assert RULES[TuningRule.INTERRUPTS](HostFacts(interfaces=(interface,), numa_cpus={0: cpus[0]})) is None


@pytest.mark.parametrize(
    ("qdisc", "default", "command"),
    [
        ("fq_codel", None, "root fq"),
        ("pfifo_fast", "fq", "root fq"),
        ("mq", "fq_codel", "root mq"),
        ("mq", "fq", None),
        ("fq", "fq_codel", None),
        ("htb", None, None),
        ("tbf", None, None),
        ("noqueue", None, None),
    ],
)
def test_queues_that_do_not_pace_are_replaced_and_shapers_are_not(qdisc: str, default: str | None, command: str | None) -> None:
    facts = HostFacts(KernelStatus(default_qdisc=default), interfaces=(TunedInterface("data0", qdisc=qdisc),))
    if command is None:
        assert RULES[TuningRule.QUEUEING_DISCIPLINE](facts) == ()
    else:
        assert _one(TuningRule.QUEUEING_DISCIPLINE, facts).command.endswith(f"dev data0 {command}")


def test_several_queues_of_an_unknown_kind_are_not_judged() -> None:
    assert RULES[TuningRule.QUEUEING_DISCIPLINE](HostFacts(interfaces=(TunedInterface("data0", qdisc="mq"),))) is None


@pytest.mark.parametrize(
    ("path", "is_found"),
    [
        (a_measured_path(0.06, 10 * G), True),
        (a_measured_path(0.04, 10 * G), False),
        (a_measured_path(0.06, 10 * G, sends=False), None),
        (a_measured_path(0.06, 10 * G, is_declared=True), False),
        (a_measured_path(0.06, 99 * G), False),
        (a_measured_path(0.06, 10 * G, far=None), None),
        (a_measured_path(0.06, 10 * G, interface=None), None),
    ],
)
def test_a_sender_that_is_faster_than_a_distant_receiver_is_to_be_paced(path: MeasuredPath, is_found: bool | None) -> None:
    facts = HostFacts(interfaces=(TunedInterface("data0", 100 * G),), paths=(path,))
    findings = RULES[TuningRule.PACING](facts)
    assert (None if findings is None else bool(findings)) is is_found
    if is_found:
        assert "capacity 10G of NetworkPath a-b" in _one(TuningRule.PACING, facts).recommended


@pytest.mark.parametrize(("governor", "is_found"), [("performance", False), ("powersave", True), ("schedutil", True)])
def test_the_governor_keeps_the_frequency(governor: str, is_found: bool) -> None:
    assert bool(RULES[TuningRule.CPU_GOVERNOR](HostFacts(KernelStatus(cpu_governor=governor)))) is is_found


@pytest.mark.parametrize(("clock", "is_found"), [("tsc", False), ("kvm-clock", False), ("arch_sys_counter", False), ("hpet", True)])
def test_the_clock_is_one_that_is_fast_to_read(clock: str, is_found: bool) -> None:
    assert bool(RULES[TuningRule.CLOCK_SOURCE](HostFacts(KernelStatus(clock_source=clock)))) is is_found
