from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from fairlead_dev.netlab.pair import NETNS_FILES, PREFIX, Net, remove_leftovers, veth
from fairlead_dev.netlab.processes import run, wait_until

DATAGRAMS = 40
SEND_SEGMENTED = """
import socket, sys
UDP_SEGMENT = 103
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sender.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, 1400)
sender.sendto(bytes(1400 * int(sys.argv[2])), (sys.argv[1], 9))
"""
"""Hands the kernel so many datagrams to an address at a time, as QUIC does."""

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")


def ours() -> list[str]:
    return [path.name for path in Path("/run/netns").glob(f"{PREFIX}-{os.getpid()}-*")]


def received_packets(net: Net) -> int:
    (shown,) = json.loads(run(["ip", "-n", net.receiver, "-statistics", "-json", "link", "show", "dev", net.device]))
    return int(shown["stats64"]["rx"]["packets"])


def test_a_veth_pair_joins_two_namespaces_and_nothing_is_left_of_it_even_after_a_failure() -> None:
    with pytest.raises(RuntimeError, match="in the midst"), veth(rate_bps=1_000_000_000) as net:
        assert sorted(ours()) == sorted([net.sender, net.receiver])
        route = run(["ip", "route", "get", net.receiver_address], namespace=net.sender)
        assert net.device in route
        assert "congctl cubic" in run(["ip", "-d", "route"], namespace=net.receiver)
        assert "tbf" in run(["tc", "qdisc", "show", "dev", net.device], namespace=net.sender)
        assert net.receiver_address in run(["cat", "/etc/hosts"], namespace=net.sender)
        raise RuntimeError("in the midst")
    assert ours() == []
    assert not list(NETNS_FILES.glob(f"{PREFIX}-{os.getpid()}-*"))


def test_what_a_killed_bench_left_is_removed_and_what_a_running_one_has_is_not() -> None:
    dead = f"{PREFIX}-{(1 << 22) + 1}-0-s"  # above every process id there can be
    run(["ip", "netns", "add", dead])
    with veth() as net:
        remove_leftovers()
        assert sorted(ours()) == sorted([net.sender, net.receiver])
    assert not Path("/run/netns", dead).exists()


def test_without_offload_datagrams_that_are_sent_at_a_time_are_packets_of_their_own() -> None:
    with veth(offload=False) as net:
        run([sys.executable, "-c", SEND_SEGMENTED, net.receiver_address, str(DATAGRAMS)], namespace=net.sender)
        wait_until(lambda: received_packets(net) >= DATAGRAMS, "a packet for each datagram", 10)
