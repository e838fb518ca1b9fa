from __future__ import annotations

import os
from pathlib import Path

import pytest

from fairlead_dev.netlab.pair import NETNS_FILES, PREFIX, remove_leftovers, veth
from fairlead_dev.netlab.processes import run

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")


def ours() -> list[str]:
    return [path.name for path in Path("/run/netns").glob(f"{PREFIX}-{os.getpid()}-*")]


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
