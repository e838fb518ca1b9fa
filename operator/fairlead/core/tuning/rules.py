"""The tuning rules: each looks at one matter, and says what to change, nothing, or that it does not know.

They are those of the ESnet host tuning guide [ESnet 2024] and the general ones of buffer, packet size and pacing that it rests on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from fairlead.api.shared.quantity import format_rate_rounded
from fairlead.core.tuning.facts import FarEnd, HostFacts, MeasuredPath, TunedInterface, cpu_list


class TuningRule(StrEnum):
    """What a finding is about, the one that costs most first."""

    SOCKET_BUFFERS = "SocketBuffers"
    MTU = "MTU"
    CONGESTION_CONTROLS = "CongestionControls"
    BONDING = "Bonding"
    INTERRUPTS = "Interrupts"
    CPU_GOVERNOR = "CPUGovernor"
    QUEUEING_DISCIPLINE = "QueueingDiscipline"
    PACING = "Pacing"
    CLOCK_SOURCE = "ClockSource"


@dataclass(frozen=True, slots=True)
class TuningFinding:
    """A setting that an administrator should change."""

    rule: TuningRule
    found: str
    recommended: str
    why: str
    command: str
    """Changes it until the next start of the host; the rule's page says how to keep it."""
    interface: str | None = None


TuningFindings = tuple[TuningFinding, ...]
Rule = Callable[[HostFacts], TuningFindings | None]
"""The findings of one rule; None where nothing is known to judge by."""

LARGEST_BUFFER_BYTES = 2**31 - 1
"""The kernel keeps buffer sizes in a signed integer of 32 bits."""
_LEAST_BUFFER_BYTES = 2**20
JUMBO_MTU = 9000
JUMBO_FROM_BPS = 10 * 10**9
"""From this rate on the packets of an MTU of 1500 (812,744 a second) cost more than a core."""
PACED_FROM_SECONDS = 0.05
"""On longer paths a burst of a faster sender overflows the buffer in front of a slower receiver, and recovery takes many round trips."""
_FASTER = 1.05
_CONTROLS = ("cubic", "bbr")
"""What the advisor chooses from."""
_UNPACED = frozenset({"pfifo_fast", "pfifo", "bfifo", "fq_codel", "fq_pie", "codel", "pie", "cake", "sfq", "prio"})
"""Disciplines that do not pace. Others are somebody's choice: shapers, and `noqueue` of virtual interfaces."""
_BY_HOST = frozenset({"layer2", "layer2+3", "encap2+3", "vlan+srcmac"})
"""Hash policies of bonds that do not look at ports: all streams between two hosts leave by the same member."""
_BY_STREAM = "layer3+4"
_SLOW_CLOCKS = frozenset({"hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit", "xen"})
"""Clock sources that cannot be read without entering the kernel; TCP reads the clock for every packet that it paces."""


def buffer_bytes(path: MeasuredPath) -> int:
    """Twice the bandwidth-delay product of the path [ESnet 2024]."""
    return int(2 * (path.rate_bps or 0) * path.rtt_seconds / 8)


def _rounded_up(size_bytes: int) -> int:
    """The next power of two, so that advice does not change with each measurement of the RTT."""
    return min(LARGEST_BUFFER_BYTES, max(_LEAST_BUFFER_BYTES, 1 << (size_bytes - 1).bit_length()))


def _socket_buffers(facts: HostFacts) -> TuningFindings | None:
    kernel, path = facts.kernel, facts.longest_path
    set_bytes = {
        "net.core.rmem_max": kernel.receive_buffer_maximum_bytes,
        "net.core.wmem_max": kernel.send_buffer_maximum_bytes,
        "net.ipv4.tcp_rmem": kernel.tcp_receive_buffer_maximum_bytes,
        "net.ipv4.tcp_wmem": kernel.tcp_send_buffer_maximum_bytes,
    }
    known = {name: size for name, size in set_bytes.items() if size is not None}
    if path is None or not known:
        return None
    needed = min(LARGEST_BUFFER_BYTES, buffer_bytes(path))
    small = {name: size for name, size in known.items() if size < needed}
    if not small:
        return ()
    wanted = _rounded_up(needed)
    values = {
        "net.core.rmem_max": f"{wanted}",
        "net.core.wmem_max": f"{wanted}",
        "net.ipv4.tcp_rmem": f"'4096 131072 {wanted}'",
        "net.ipv4.tcp_wmem": f"'4096 16384 {wanted}'",
    }
    return (
        TuningFinding(
            TuningRule.SOCKET_BUFFERS,
            found=", ".join(f"{name} {_size(size)}" for name, size in small.items()),
            recommended=f"{_size(wanted)} each",
            why=f"twice rate x RTT of the longest known path, {path.name}: {_rate(path.rate_bps)} x"
            f" {_milliseconds(path.rtt_seconds)}; with less, one stream cannot fill it",
            command="sysctl -w " + " ".join(f"{name}={values[name]}" for name in small),
        ),
    )


def _mtu(facts: HostFacts) -> TuningFindings | None:
    judged = [each for each in facts.interfaces if each.mtu is not None]
    if not judged:
        return None
    return tuple(finding for each in judged if (finding := _mtu_of(each, facts)) is not None)


def _mtu_of(interface: TunedInterface, facts: HostFacts) -> TuningFinding | None:
    found, declared = interface.mtu or 0, interface.declared_mtu
    larger = [far for far in _far_ends(interface, facts) if (far.mtu or 0) > found]
    if declared is not None and declared != found:
        wanted, why = declared, "spec.interfaces declares it"
    elif larger:
        far = max(larger, key=lambda each: (each.mtu or 0, each.node, each.interface))
        wanted, why = far.mtu or 0, f"{far} has it, and its packets may be lost here; if the network cannot carry it, lower it there"
    elif declared is None and found < JUMBO_MTU and (interface.rate_bps or 0) >= JUMBO_FROM_BPS:
        wanted = JUMBO_MTU
        why = f"a sixth of the packets at {_rate(interface.rate_bps)}; if the network cannot carry it, declare mtu {found} in the spec"
    else:
        return None
    command = f"ip link set dev {interface.name} mtu {wanted}"
    return TuningFinding(TuningRule.MTU, str(found), str(wanted), why, command, interface.name)


def _far_ends(interface: TunedInterface, facts: HostFacts) -> list[FarEnd]:
    """The interfaces of other nodes that it is known to exchange data with."""
    on_network = facts.largest_mtu.get(interface.network) if interface.network is not None else None
    on_paths = [path.far for path in facts.paths if path.interface == interface.name and path.far is not None]
    return on_paths if on_network is None else [on_network, *on_paths]


def _congestion_controls(facts: HostFacts) -> TuningFindings | None:
    allowed, offered = facts.kernel.allowed_congestion_controls, facts.kernel.congestion_controls
    if not allowed:
        return None
    missing = [control for control in _CONTROLS if control not in allowed]
    if not missing:
        return ()
    load = [f"modprobe tcp_{control}" for control in missing if offered and control not in offered]
    wanted = " ".join(sorted({*allowed, *missing}))
    return (
        TuningFinding(
            TuningRule.CONGESTION_CONTROLS,
            found=f"allowed: {' '.join(allowed)}",
            recommended=f"allowed: {wanted}",
            why=f"movers have no privilege, and the advisor chooses among {' and '.join(_CONTROLS)}: it cannot choose"
            f" {' or '.join(missing)} here",
            command=" && ".join([*load, f"sysctl -w net.ipv4.tcp_allowed_congestion_control='{wanted}'"]),
        ),
    )


def _bonding(facts: HostFacts) -> TuningFindings | None:
    judged = [each for each in facts.interfaces if each.is_reported]
    if not judged:
        return None
    return tuple(
        TuningFinding(
            TuningRule.BONDING,
            found=f"xmit_hash_policy {bond.hash_policy} over {bond.members} members",
            recommended=f"xmit_hash_policy {_BY_STREAM}",
            why="it does not look at ports, so that all streams between two hosts leave by one member"
            f"{f' of {_rate(each.rate_bps // bond.members)}' if each.rate_bps else ''}; with {_BY_STREAM} streams spread over all members",
            command=f"echo {_BY_STREAM} > /sys/class/net/{bond.name}/bonding/xmit_hash_policy",
            interface=each.name,
        )
        for each in judged
        if (bond := each.bond) is not None and bond.members > 1 and bond.hash_policy in _BY_HOST
    )


def _interrupts(facts: HostFacts) -> TuningFindings | None:
    judged = [
        (each, each.interrupt_cpus, beside)
        for each in facts.interfaces
        if each.interrupt_cpus and each.numa_node is not None and (beside := facts.numa_cpus.get(each.numa_node))
    ]
    if not judged:
        return None
    return tuple(
        TuningFinding(
            TuningRule.INTERRUPTS,
            found=f"on CPUs {cpu_list(cpus)}",
            recommended=f"on CPUs {cpu_list(beside)}",
            why=f"the card is on NUMA node {each.numa_node}; elsewhere every packet crosses between the processors",
            command=f"systemctl stop irqbalance; for irq in $(ls /sys/class/net/{each.name}/device/msi_irqs);"
            f" do echo {cpu_list(beside)} > /proc/irq/$irq/smp_affinity_list; done",
            interface=each.name,
        )
        for each, cpus, beside in judged
        if not cpus <= beside
    )


def _cpu_governor(facts: HostFacts) -> TuningFindings | None:
    governor = facts.kernel.cpu_governor
    if governor is None:
        return None
    if governor == "performance":
        return ()
    why = "a CPU that lowers its frequency between bursts is slow when the next one comes"
    return (TuningFinding(TuningRule.CPU_GOVERNOR, governor, "performance", why, "cpupower frequency-set --governor performance"),)


def _queueing_discipline(facts: HostFacts) -> TuningFindings | None:
    default = facts.kernel.default_qdisc
    judged = [each for each in facts.interfaces if each.qdisc is not None and (each.qdisc != "mq" or default is not None)]
    if not judged:
        return None
    return tuple(finding for each in judged if (finding := _qdisc_of(each, default)) is not None)


def _qdisc_of(interface: TunedInterface, default: str | None) -> TuningFinding | None:
    # The queues of mq have the default that held when it was made.
    is_multiple = interface.qdisc == "mq"
    queue = default if is_multiple else interface.qdisc
    if queue not in _UNPACED:
        return None
    found, wanted = (f"mq with queues of {queue}", "mq with queues of fq") if is_multiple else (f"{queue}", "fq")
    why = "it paces each stream in the queue; without it TCP paces by timers of its own, which costs more and is less exact"
    command = f"sysctl -w net.core.default_qdisc=fq && tc qdisc replace dev {interface.name} root {'mq' if is_multiple else 'fq'}"
    return TuningFinding(TuningRule.QUEUEING_DISCIPLINE, found, wanted, why, command, interface.name)


def _pacing(facts: HostFacts) -> TuningFindings | None:
    rates = {each.name: each.rate_bps for each in facts.interfaces}
    judged = [
        (path, own_bps, path.far, path.far.rate_bps)
        for path in facts.paths
        if path.sends and path.far is not None and path.far.rate_bps and (own_bps := rates.get(path.interface or ""))
    ]
    if not judged:
        return None
    return tuple(
        _slower_receiver(path, own_bps, far, far_bps)
        for path, own_bps, far, far_bps in judged
        if not path.is_declared and path.rtt_seconds >= PACED_FROM_SECONDS and own_bps > _FASTER * far_bps
    )


def _slower_receiver(path: MeasuredPath, own_bps: int, far: FarEnd, far_bps: int) -> TuningFinding:
    patch = f'{{"spec":{{"capacity":"{_rate(far_bps)}"}}}}'
    return TuningFinding(
        TuningRule.PACING,
        found=f"{_rate(own_bps)} towards {far}, which has {_rate(far_bps)}",
        recommended=f"capacity {_rate(far_bps)} of NetworkPath {path.name}, and the path as a link of the FairnessPolicy",
        why=f"over {_milliseconds(path.rtt_seconds)} a sender that is faster than the receiver loses packets in bursts",
        command=f"kubectl patch networkpath {path.name} --type merge -p '{patch}'",
        interface=path.interface,
    )


def _clock_source(facts: HostFacts) -> TuningFindings | None:
    clock = facts.kernel.clock_source
    if clock is None:
        return None
    if clock not in _SLOW_CLOCKS:
        return ()
    why = "TCP reads the clock for every packet that it paces, and this one is slow to read"
    command = "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource"
    return (TuningFinding(TuningRule.CLOCK_SOURCE, clock, "tsc", why, command),)


RULES: dict[TuningRule, Rule] = {
    TuningRule.SOCKET_BUFFERS: _socket_buffers,
    TuningRule.MTU: _mtu,
    TuningRule.CONGESTION_CONTROLS: _congestion_controls,
    TuningRule.BONDING: _bonding,
    TuningRule.INTERRUPTS: _interrupts,
    TuningRule.CPU_GOVERNOR: _cpu_governor,
    TuningRule.QUEUEING_DISCIPLINE: _queueing_discipline,
    TuningRule.PACING: _pacing,
    TuningRule.CLOCK_SOURCE: _clock_source,
}


def _rate(rate_bps: int | None) -> str:
    return format_rate_rounded(rate_bps or 0)


def _size(size_bytes: int) -> str:
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size_bytes >= factor:
            return f"{size_bytes / factor:.3g} {unit}"
    return f"{size_bytes} B"


def _milliseconds(seconds: float) -> str:
    return f"{max(1, round(seconds * 1000))} ms"
