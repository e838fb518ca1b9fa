"""How much of what movers say of others' traffic is believed, and for how long."""

from __future__ import annotations

import pytest

from fairlead.core.fairness.foreign import (
    FORGOTTEN_SECONDS,
    UNSUPPORTED_PART,
    UNSUPPORTED_SECONDS,
    Estimate,
    Foreign,
    ForeignTraffic,
    LinkClaims,
    claims_of,
    estimate_of,
    exceeds,
)

G = 1e9
NOW = 1000.0


def test_one_round_in_which_our_counters_lag_is_no_foreign_traffic() -> None:
    foreign = Foreign().noted(0.01 * G, G).noted(0.5 * G, G).noted(0.01 * G, G)
    assert foreign.rate_bps == 0.0


@pytest.mark.parametrize(
    ("total", "own", "expected"),
    [
        (0.0, 0.0, Estimate(0.0)),
        (1.4, 0.0, Estimate(1.4 * G)),
        (1.6, 0.0, Estimate(1.6 * G, exceeds=True)),
        (0.3, 0.5, Estimate(0.0)),
        (0.2, 0.5, None),
        (0.0, 0.03, Estimate(0.0)),
        (-5.0, 0.0, None),
    ],
)
def test_a_counter_below_its_movers_own_traffic_says_nothing(total: float, own: float, expected: Estimate | None) -> None:
    assert estimate_of(total * G, own * G, own * G, G) == expected


def test_no_link_carries_what_a_counter_that_jumps_says() -> None:
    assert exceeds(2.0**60, G)
    assert not exceeds(1.2 * G, G)


WRONG = Estimate(9.0, exceeds=True)


@pytest.mark.parametrize(
    ("interfaces", "one_party", "expected"),
    [
        ([], False, None),
        ([{"a": []}], False, None),
        ([{"a": [Estimate(3.0)]}], True, LinkClaims(3.0, 3.0)),
        ([{"a": [Estimate(3.0)]}], False, LinkClaims(3.0, 0.0)),
        ([{"a": [Estimate(3.0)], "b": [Estimate(1.0)]}], False, LinkClaims(3.0, 1.0)),
        ([{"a": [Estimate(9.0)], "b": [Estimate(1.0)], "c": [Estimate(2.0)]}], False, LinkClaims(9.0, 2.0)),
        ([{"a": [Estimate(9.0), Estimate(1.0), Estimate(1.0)], "b": [Estimate(1.0)]}], False, LinkClaims(1.0, 1.0)),
        ([{"a": [Estimate(3.0)], "b": [Estimate(3.0)]}, {"a": [Estimate(2.0)]}], False, LinkClaims(5.0, 3.0)),
        ([{"a": [WRONG], "b": [Estimate(3.0)]}], False, LinkClaims(3.0, 3.0)),
        ([{"a": [WRONG]}], False, LinkClaims(0.0, 0.0)),
        ([{"a": [WRONG]}], True, LinkClaims(9.0, 9.0)),
        ([{"a": [WRONG], "b": [WRONG]}], False, LinkClaims(9.0, 9.0)),
    ],
)
def test_what_two_sources_say_is_supported(
    interfaces: list[dict[str, list[Estimate]]], one_party: bool, expected: LinkClaims | None
) -> None:
    assert claims_of(interfaces, one_party=one_party) == expected


def test_a_claim_without_a_second_source_counts_in_part_for_a_while_and_anew_only_after_a_long_silence() -> None:
    def at(now: float, traffic: ForeignTraffic, claimed: float) -> ForeignTraffic:
        for _ in range(3):
            traffic = traffic.noted(LinkClaims(claimed * G, 0.1 * G), G, now)
        return traffic

    traffic = at(NOW, ForeignTraffic(), 0.9)
    part = UNSUPPORTED_PART * G
    assert traffic.rate_bps(G, NOW) == 0.1 * G + part
    assert traffic.rate_bps(G, NOW + UNSUPPORTED_SECONDS) == 0.1 * G
    again = at(NOW + 300, at(NOW + 200, traffic, 0.1), 0.9)
    assert again.rate_bps(G, NOW + 300) == 0.1 * G
    late = NOW + 300 + FORGOTTEN_SECONDS
    assert at(late, again, 0.9).rate_bps(G, late) == 0.1 * G + part
    assert again.noted(None, G, late).rate_bps(G, late) is None
