"""The rules of nftables for senders that no program holds."""

from __future__ import annotations

import re

import pytest

from fairlead.core.settings import GUARDED_MOST_BPS
from fairlead.guard.ruleset import Endpoint, HeldSender, NetworkClass, NoRuleError, chains_of, difference, no_rules, ruleset


def rules_of(script: str) -> list[str]:
    return [line.strip() for line in script.splitlines() if "counter drop" in line]


def table(senders: list[HeldSender]) -> str:
    return ruleset(chains_of(senders))


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
    assert rules_of(table([sender])) == [expected]


def test_the_highest_cap_that_is_held_is_one_that_the_kernel_can_count() -> None:
    (rule,) = rules_of(table([HeldSender(Endpoint("198.19.0.2", 24000), GUARDED_MOST_BPS)]))
    rate, burst = (int(number) for number in re.findall(r"(\d+) bytes", rule))
    assert (rate + burst) * 10**9 < 2**64
    with pytest.raises(NoRuleError, match="more than a rule of nftables can count"):
        table([HeldSender(Endpoint("198.19.0.2", 24000), GUARDED_MOST_BPS + 1)])


def test_the_processes_of_a_network_class_are_held_whatever_they_send() -> None:
    (rule,) = rules_of(table([HeldSender(NetworkClass(0xFA1E0001), 80_000_000)]))
    assert rule == 'meta cgroup 4196270081 oifname != "lo" limit rate over 10500000 bytes/second burst 2625000 bytes counter drop'


@pytest.mark.parametrize("address", ["fe80::1%5", "fe80::1", "127.0.0.1", "::1", "169.254.169.254", "224.0.0.1", "0.0.0.0", "::"])
def test_an_address_that_is_no_other_hosts_has_no_rule(address: str) -> None:
    with pytest.raises(NoRuleError, match="not the address of another host's data interface"):
        table([HeldSender(Endpoint(address, 24000), 10**8)])


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_a_port_that_is_none_has_no_rule(port: int) -> None:
    with pytest.raises(NoRuleError, match="no port"):
        table([HeldSender(Endpoint("198.19.0.2", port), 10**8)])


def test_the_script_does_not_depend_on_the_order_of_senders() -> None:
    one, other = HeldSender(Endpoint("198.19.0.2", 24000), 10**8), HeldSender(Endpoint("198.19.0.3", 24000), 10**7)
    assert table([one, other]) == table([other, one])
    assert len(rules_of(table([one, other]))) == 2


def test_the_first_script_replaces_the_table_of_an_earlier_guard_and_the_last_leaves_none() -> None:
    assert table([HeldSender(NetworkClass(0xFA1E0001), 10**8)]).startswith(no_rules())
    assert table([]) == no_rules() == difference(chains_of([HeldSender(NetworkClass(0xFA1E0001), 10**8)]), {})


@pytest.mark.parametrize("match", [NetworkClass(0xFA1E0001), Endpoint("198.19.0.3", 24000), Endpoint("2001:db8::3", 24000)])
@pytest.mark.parametrize("change", ["arrives", "changes", "leaves"])
def test_what_becomes_of_one_sender_refills_no_limit_of_another(match: NetworkClass | Endpoint, change: str) -> None:
    other = HeldSender(Endpoint("198.19.0.2", 24000), 10**8)
    one, slower = HeldSender(match, 10**8), HeldSender(match, 10**7)
    before = chains_of([other] if change == "arrives" else [other, one])
    after = chains_of([other] if change == "leaves" else [other, slower])
    script = difference(before, after)
    assert "delete table" not in script
    (theirs,) = chains_of([other])
    assert [line for line in script.splitlines() if theirs in line] == [f"add rule inet fairlead_guard output jump {theirs}"]
    assert rules_of(script) == [f"add rule inet fairlead_guard {name} {rule}" for name in after.keys() - {theirs} for rule in after[name]]


def test_two_senders_to_one_receiver_have_both_their_rules() -> None:
    # As where a sender of an attempt before has not ended yet.
    receiver = Endpoint("198.19.0.2", 24000)
    both = chains_of([HeldSender(receiver, 10**7), HeldSender(receiver, 10**8)])
    assert [len(rules) for rules in both.values()] == [2]
    assert len(rules_of(difference(chains_of([HeldSender(receiver, 10**8)]), both))) == 2


def test_an_address_that_is_none_never_reaches_the_script() -> None:
    with pytest.raises(ValueError, match="does not appear to be an IPv4 or IPv6 address"):
        table([HeldSender(Endpoint("1.2.3.4 accept; x", 24000), 10**8)])
