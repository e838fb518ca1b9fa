"""The rules of nftables for senders that no program holds."""

from __future__ import annotations

import re

import pytest

from fairlead.core.settings import GUARDED_MOST_BPS
from fairlead.guard.ruleset import Endpoint, HeldSender, NetworkClass, NoRuleError, no_rules, ruleset


def rules_of(script: str) -> list[str]:
    return [line.strip() for line in script.splitlines() if "counter drop" in line]


@pytest.mark.parametrize(
    ("sender", "expected"),
    [
        (
            HeldSender(Endpoint("198.19.0.2", 24000), 80_000_000),
            "ip daddr 198.19.0.2 meta l4proto { tcp, udp } th dport 24000"
            " limit rate over 10500000 bytes/second burst 2625000 bytes counter drop",
        ),
        (
            HeldSender(Endpoint("2001:db8::2", 24004), 64_000),
            "ip6 daddr 2001:db8::2 meta l4proto { tcp, udp } th dport 24004"
            " limit rate over 8400 bytes/second burst 262144 bytes counter drop",
        ),
        (
            HeldSender(Endpoint("198.19.0.2", 24000), 10**11),
            "ip daddr 198.19.0.2 meta l4proto { tcp, udp } th dport 24000"
            " limit rate over 13125000000 bytes/second burst 1073741824 bytes counter drop",
        ),
    ],
    ids=["a cap and a twentieth", "the slowest over IPv6", "a fast one"],
)
def test_a_sender_is_held_a_little_above_its_cap(sender: HeldSender, expected: str) -> None:
    assert rules_of(ruleset([sender])) == [expected]


def test_the_highest_cap_that_is_held_is_one_that_the_kernel_can_count() -> None:
    (rule,) = rules_of(ruleset([HeldSender(Endpoint("198.19.0.2", 24000), GUARDED_MOST_BPS)]))
    rate, burst = (int(number) for number in re.findall(r"(\d+) bytes", rule))
    assert (rate + burst) * 10**9 < 2**64
    with pytest.raises(NoRuleError, match="more than a rule of nftables can count"):
        ruleset([HeldSender(Endpoint("198.19.0.2", 24000), GUARDED_MOST_BPS + 1)])


def test_the_processes_of_a_network_class_are_held_whatever_they_send() -> None:
    (rule,) = rules_of(ruleset([HeldSender(NetworkClass(0xFA1E0001), 80_000_000)]))
    assert rule == 'meta cgroup 4196270081 oifname != "lo" limit rate over 10500000 bytes/second burst 2625000 bytes counter drop'


@pytest.mark.parametrize("address", ["fe80::1%5", "fe80::1", "127.0.0.1", "::1", "169.254.169.254", "224.0.0.1", "0.0.0.0", "::"])
def test_an_address_that_is_no_other_hosts_has_no_rule(address: str) -> None:
    with pytest.raises(NoRuleError, match="not the address of another host's data interface"):
        ruleset([HeldSender(Endpoint(address, 24000), 10**8)])


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_a_port_that_is_none_has_no_rule(port: int) -> None:
    with pytest.raises(NoRuleError, match="no port"):
        ruleset([HeldSender(Endpoint("198.19.0.2", port), 10**8)])


def test_the_script_does_not_depend_on_the_order_of_senders() -> None:
    one, other = HeldSender(Endpoint("198.19.0.2", 24000), 10**8), HeldSender(Endpoint("198.19.0.3", 24000), 10**7)
    assert ruleset([one, other]) == ruleset([other, one])
    assert len(rules_of(ruleset([one, other]))) == 2


def test_each_script_replaces_the_table_as_a_whole_and_the_last_leaves_none() -> None:
    assert ruleset([]).startswith(no_rules())
    assert rules_of(no_rules()) == []


def test_an_address_that_is_none_never_reaches_the_script() -> None:
    with pytest.raises(ValueError, match="does not appear to be an IPv4 or IPv6 address"):
        ruleset([HeldSender(Endpoint("1.2.3.4 accept; x", 24000), 10**8)])
