"""Counters by netlink beside what `tc`, `ip` and `nft` show of the same namespace."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from fairlead_dev.errors import LabError
from fairlead_dev.netlab import links
from fairlead_dev.netlab.counters import NamespaceCounters
from fairlead_dev.netlab.namespaces import inside, ip, name_of, namespaces
from fairlead_dev.netlab.processes import run

RULES = """
table ip lab {
  counter seen { }
  chain in { type filter hook input priority 0; udp dport 9 counter name "seen" drop; }
}
"""
PAYLOAD = bytes(1000)

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")


@pytest.fixture
def namespace() -> Iterator[str]:
    """One whose loopback takes two packets of 1028 bytes at a time and then waits longer than any test."""
    name = name_of("fairlead-bench", os.getpid(), 77, "c")
    with namespaces([name]):
        links.drop_tail(name, "lo", 100, burst_bytes=2_100, buffer_bytes=5 * 1_042)
        run(["nft", "-f", "-"], namespace=name, stdin=RULES)
        yield name


def test_a_queue_tells_what_it_sent_holds_and_dropped_as_tc_does(namespace: str) -> None:
    with closing(NamespaceCounters(namespace)) as counters:
        assert counters.queue("lo").offered_packets == 0
        with inside(namespace), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for _ in range(20):
                try:
                    sender.sendto(PAYLOAD, ("127.0.0.1", 9))
                except OSError:
                    continue
        shown = run(["tc", "-s", "-j", "qdisc", "show", "dev", "lo"], namespace=namespace)
        seen = counters.queue("lo")
        (tc,) = json.loads(shown)
        assert (seen.waiting_bytes, seen.waiting_packets, seen.dropped_packets) == (tc["backlog"], tc["qlen"], tc["drops"])
        assert (seen.sent_bytes, seen.sent_packets) == (tc["bytes"], tc["packets"])
        assert seen.offered_packets == 20 and seen.dropped_packets > 0 and seen.waiting_bytes <= 5 * 1_042
        assert counters.counted("lab", "seen") == seen.sent_packets
        assert counters.dropped_sending("lo") == 0


def test_what_a_namespace_does_not_have_is_told_with_its_name(namespace: str) -> None:
    with closing(NamespaceCounters(namespace)) as counters:
        ip(namespace, "link add bare type veth peer name other")
        with pytest.raises(LabError, match=f"{namespace}: bare has no queue"):
            counters.queue("bare")
        with pytest.raises(LabError, match=f"{namespace}: .*No such device"):
            counters.queue("absent")
        with pytest.raises(LabError, match=f"{namespace}: .*No such file"):
            counters.counted("lab", "absent")
    with pytest.raises(LabError, match="cannot be asked"):
        NamespaceCounters("fairlead-bench-none")
