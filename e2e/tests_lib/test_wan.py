"""A test's own link, and connections as `ss` prints them."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network
from itertools import pairwise

import pytest
from e2e.lib.wan.connections import Connection, parse
from e2e.lib.wan.link import addresses

MOVER = (
    "0      0      198.19.128.5:40312   198.19.128.6:24000 cubic wscale:10,10 rto:241 rtt:40.6/0.1 mss:1448 cwnd:147 ssthresh:147 "
    "bytes_sent:3200000 bytes_acked:3072128 segs_out:2200 send 42Mbps"
)
SILENT = "0      0      198.19.128.5:40310   198.19.128.6:24000 bbr wscale:10,10 rto:241 rtt:40.6/0.1 mss:1448 cwnd:10"


def test_connections_have_the_congestion_control_in_force_and_what_arrived() -> None:
    assert parse(f"{MOVER}\n{SILENT}\n") == [Connection(40312, "cubic", 3_072_128), Connection(40310, "bbr", 0)]


def test_no_connection_is_no_line() -> None:
    assert parse("") == []


@pytest.mark.parametrize("number", [1, 8191, 8192, 4_194_304])
def test_links_have_two_addresses_for_benchmarking_apart_from_the_clusters(number: int) -> None:
    one, other = (IPv4Address(address) for address in addresses(number))
    assert int(other) == int(one) + 1
    assert {one, other} <= set(IPv4Network("198.19.128.0/17"))


def test_links_of_neighbouring_processes_have_other_addresses() -> None:
    both = [set(addresses(number)) for number in range(100)]
    assert all(not one & other for one, other in pairwise(both))
