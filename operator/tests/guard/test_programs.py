"""Programs at control groups: with a kernel that only remembers, and on this machine's own with real processes and networks."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from guard_pods import UIDS
from guard_programs import FakeKernel

from fairlead.guard import programs
from fairlead.guard.cgroups import PodGroups, unified_root
from fairlead.guard.program import CONFIG, config
from fairlead.guard.programs import VALID_SECONDS, CgroupPrograms
from fairlead_dev.netlab.namespaces import inside
from fairlead_dev.netlab.pair import Net, remove_leftovers, veth

UNIFIED = unified_root(Path("/sys/fs/cgroup"))
SENDER = """
import os, socket, sys
from fairlead_dev.netlab.namespaces import inside
group, namespace, address, port, count = sys.argv[1:]
open(f"{group}/cgroup.procs", "w").write(str(os.getpid()))
with inside(namespace):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sender = socket.socket(family, socket.SOCK_DGRAM)
for _ in range(int(count)):
    sender.sendto(bytes(1000), (address, int(port)))
"""
BUNDLES = """
import os, socket, sys
from fairlead_dev.netlab.namespaces import inside
group, namespace, address = sys.argv[1:]
open(f"{group}/cgroup.procs", "w").write(str(os.getpid()))
with inside(namespace):
    sender = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
sender.setsockopt(socket.IPPROTO_UDP, 103, 1000)  # UDP_SEGMENT
for _ in range(50):
    sender.sendto(bytes(10_000), (address, 9))
"""
COUNT = 200
SO_RCVBUFFORCE = 33
SLOW_BPS, FAST_BPS = 80_000, 10**11
NOW_NS = 10**12


@pytest.mark.parametrize(
    ("cap_bps", "length_bytes", "expected_ns"),
    [(100_000_000, 1500, 118_812), (10**12, 65536, 519), (64_000, 1500, 185_643_564), (1, 1500, 1_485_148_515)],
    ids=["100 Mb/s", "1 Tb/s", "64 kb/s", "below the least"],
)
def test_a_packet_costs_its_time_at_a_hundredth_above_the_cap(cap_bps: int, length_bytes: int, expected_ns: int) -> None:
    cost, depth_ns, until_ns = CONFIG.unpack(config(cap_bps, NOW_NS))
    assert length_bytes * cost >> 20 == pytest.approx(expected_ns, rel=0.005)
    assert (depth_ns, until_ns) == (30_000_000, NOW_NS)
    assert cost << 20 < 2**64


class Fakes:
    """Programs over a folder in the place of control groups."""

    def __init__(self, root: Path) -> None:
        self.kernel, self.now_ns = FakeKernel(), NOW_NS
        self.group = root / "kubepods" / f"pod{UIDS[0]}"
        self.group.mkdir(parents=True)
        self.programs = CgroupPrograms(PodGroups(root), kernel=self.kernel, clock_ns=lambda: self.now_ns)

    def until_ns(self) -> int:
        return max(CONFIG.unpack(value)[2] for descriptor, value in self.kernel.values.items() if _is_open(descriptor))


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def test_a_program_that_nobody_renews_lets_go_in_the_end(tmp_path: Path) -> None:
    fakes = Fakes(tmp_path)
    fakes.programs.hold(UIDS[0], SLOW_BPS)
    assert fakes.until_ns() == NOW_NS + VALID_SECONDS * 10**9
    fakes.now_ns += 10**10
    fakes.programs.renew()
    assert fakes.until_ns() == NOW_NS + 10**10 + VALID_SECONDS * 10**9


def test_a_group_that_has_gone_is_forgotten(tmp_path: Path) -> None:
    fakes = Fakes(tmp_path)
    fakes.programs.hold(UIDS[0], SLOW_BPS)
    fakes.group.rmdir()
    fakes.programs.renew()
    assert not any(map(_is_open, fakes.kernel.values))
    assert not fakes.programs.hold(UIDS[0], SLOW_BPS)


def test_a_refused_program_leaves_no_descriptor_open(tmp_path: Path) -> None:
    fakes = Fakes(tmp_path)
    fakes.kernel.refused = {fakes.group}
    with pytest.raises(PermissionError):
        fakes.programs.hold(UIDS[0], SLOW_BPS)
    assert not any(map(_is_open, fakes.kernel.values))


def test_a_pod_without_a_cap_is_no_error_where_no_program_can_be_put(tmp_path: Path) -> None:
    fakes = Fakes(tmp_path)
    fakes.kernel.refused = {fakes.group}
    fakes.programs.release(UIDS[0])
    assert not any(map(_is_open, fakes.kernel.values))


class Pod:
    """A control group for a pod with one container, a path to another host, and programs for both."""

    def __init__(self, net: Net, root: Path) -> None:
        self.net, self.root = net, root
        self.group = root / "kubepods" / f"pod{UIDS[0]}"
        self.container = self.group / "container"
        self.container.mkdir(parents=True)
        self.programs = CgroupPrograms(PodGroups(root))

    def arrived(self, address: str | None = None, group: Path | None = None) -> int:
        """Sends datagrams from a process of the pod, to a port of its own; how many of them arrive."""
        address = address or self.net.receiver_address
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        namespace = self.net.sender if address == self.net.sender_address else self.net.receiver
        with inside(namespace), socket.socket(family, socket.SOCK_DGRAM) as receiver:
            receiver.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 22)
            receiver.bind((address, 0))
            words = (group or self.container, self.net.sender, address, receiver.getsockname()[1], COUNT)
            subprocess.run([sys.executable, "-c", SENDER, *map(str, words)], check=True)
            receiver.setblocking(False)
            return sum(1 for _ in iter(lambda: _receive(receiver), b""))


def _receive(receiver: socket.socket) -> bytes:
    try:
        return receiver.recv(2000)
    except BlockingIOError:
        return b""


@pytest.fixture(scope="module")
def net() -> Iterator[Net]:
    remove_leftovers()
    with veth() as path:
        for name, address in ((path.sender, "fd00:7::1"), (path.receiver, "fd00:7::2")):
            subprocess.run(["ip", "-n", name, "addr", "add", f"{address}/64", "dev", path.device, "nodad"], check=True)
        yield path


@pytest.fixture
def pod(net: Net) -> Iterator[Pod]:
    assert UNIFIED is not None
    root = UNIFIED / f"fairlead-test-{os.getpid()}"
    made = Pod(net, root)
    yield made
    made.programs.close()
    for folder in sorted(root.rglob("*"), reverse=True):
        if folder.is_dir():
            folder.rmdir()
    root.rmdir()


on_this_kernel = pytest.mark.skipif(UNIFIED is None or os.geteuid() != 0, reason="needs root and control groups of version 2")


@on_this_kernel
def test_what_any_process_of_the_pod_sends_is_held(pod: Pod) -> None:
    assert pod.arrived() == COUNT
    assert pod.programs.hold(UIDS[0], SLOW_BPS)
    assert pod.arrived() < COUNT / 2
    assert pod.arrived("fd00:7::2") < COUNT / 2
    other = pod.group / "other-container"
    other.mkdir()
    assert pod.arrived(group=other) < COUNT / 2
    dropped = pod.programs.dropped(UIDS[0])
    assert dropped.packets > COUNT
    assert dropped.count_bytes > dropped.packets * 1000


@on_this_kernel
@pytest.mark.parametrize(("address", "headers_bytes"), [("", 28), ("fd00:7::2", 48)], ids=["IPv4", "IPv6"])
def test_a_bundle_of_datagrams_counts_as_the_packets_that_it_becomes(pod: Pod, address: str, headers_bytes: int) -> None:
    pod.programs.hold(UIDS[0], SLOW_BPS)
    words = (pod.container, pod.net.sender, address or pod.net.receiver_address)
    subprocess.run([sys.executable, "-c", BUNDLES, *map(str, words)], check=True)
    dropped = pod.programs.dropped(UIDS[0])
    assert dropped.packets > 40
    assert dropped.count_bytes == dropped.packets * 10 * (1000 + headers_bytes)


@on_this_kernel
def test_other_pods_and_traffic_within_the_node_are_not_held(pod: Pod) -> None:
    pod.programs.hold(UIDS[0], SLOW_BPS)
    neighbour = pod.root / "kubepods" / f"pod{UIDS[1]}"
    neighbour.mkdir()
    assert pod.arrived(group=neighbour) == COUNT
    assert pod.arrived(pod.net.sender_address) == COUNT


@on_this_kernel
def test_a_cap_changes_while_it_is_in_force_and_ends(pod: Pod) -> None:
    pod.programs.hold(UIDS[0], SLOW_BPS)
    pod.programs.hold(UIDS[0], FAST_BPS)
    assert pod.arrived() == COUNT
    pod.programs.hold(UIDS[0], SLOW_BPS)
    assert pod.arrived() < COUNT / 2
    pod.programs.release(UIDS[0])
    assert pod.arrived() == COUNT


@on_this_kernel
def test_a_cap_outlives_the_guard_and_the_next_guard_takes_it_over(pod: Pod) -> None:
    pod.programs.hold(UIDS[0], SLOW_BPS)
    pod.programs.close()
    assert pod.arrived() < COUNT / 2
    following = CgroupPrograms(PodGroups(pod.root))
    following.hold(UIDS[0], FAST_BPS)
    assert pod.arrived() == COUNT
    following.hold(UIDS[0], SLOW_BPS)
    assert pod.arrived() < COUNT / 2
    following.close()


@on_this_kernel
def test_a_cap_of_an_earlier_guard_ends_when_the_job_has_none_any_more(pod: Pod) -> None:
    pod.programs.hold(UIDS[0], SLOW_BPS)
    pod.programs.close()
    following = CgroupPrograms(PodGroups(pod.root))
    following.release(UIDS[0])
    assert pod.arrived() == COUNT
    assert following.hold(UIDS[0], SLOW_BPS)
    assert pod.arrived() < COUNT / 2
    following.close()


@on_this_kernel
def test_a_program_past_its_time_lets_go(pod: Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    # Shorter than a machine has been up that has just started.
    monkeypatch.setattr(programs, "VALID_SECONDS", 1)
    expired = CgroupPrograms(PodGroups(pod.root), clock_ns=lambda: 0)
    expired.hold(UIDS[0], SLOW_BPS)
    assert pod.arrived() == COUNT
    expired.close()


@on_this_kernel
def test_what_is_below_the_pod_cannot_take_the_programs_place(pod: Pod) -> None:
    pod.programs.hold(UIDS[0], SLOW_BPS)
    (pod.container / "kubepods" / f"pod{UIDS[1]}").mkdir(parents=True)
    with pytest.raises(PermissionError):
        CgroupPrograms(PodGroups(pod.container)).hold(UIDS[1], FAST_BPS)


@on_this_kernel
def test_this_kernel_takes_the_program() -> None:
    CgroupPrograms(PodGroups(Path("/nowhere"))).check()
