"""What the transports' bench concludes from samples."""

from __future__ import annotations

from collections import Counter

import pytest

from fairlead_dev.bench.lab.rates import InterfaceSample
from fairlead_dev.bench.transports import bbr
from fairlead_dev.bench.transports.figures import (
    SCAVENGER_ROWS,
    Moments,
    Yielding,
    added_ms,
    gives_way_s,
    order,
    p99_error,
    round_trips,
    row_of,
    scavenger_rows,
    share,
    takes_back_s,
)
from fairlead_dev.bench.transports.measure import Moved, MovedToSlow
from fairlead_dev.bench.transports.parts import (
    GOALS,
    IPERF3,
    LIBUDT,
    LOSSY_CASES,
    LOSSY_PEERS,
    PARTS,
    PROTOCOLS,
    QUIC_PEER,
    ROWS,
    SLOW_RECEIVER,
    SLOW_RECEIVER_CASES,
    Measured,
    cases,
    rows_of,
)
from fairlead_dev.bench.transports.paths import SCAVENGED

LINK_BPS = 100e6
MOMENTS = Moments(began=0.0, cubic_began=20.0, cubic_ended=35.0, over=50.0)


def samples(*spans: tuple[float, float]) -> list[InterfaceSample]:
    """Ten a second of a flow with these parts of the link until these moments."""
    found, sent = [InterfaceSample(0.0, 0)], 0.0
    for number in range(1, 501):
        moment = number / 10
        part = next((part for part, until in spans if moment <= until + 1e-9), 0.0)
        sent += part * LINK_BPS / 8 / 10
        found.append(InterfaceSample(moment, int(sent)))
    return found


def test_a_share_is_what_came_between_two_moments() -> None:
    flow = samples((1.0, 20.0), (0.05, 50.0))
    assert share(flow, 0.0, 20.0, LINK_BPS) == pytest.approx(1.0, abs=0.001)
    assert share(flow, 25.0, 35.0, LINK_BPS) == pytest.approx(0.05, abs=0.001)


def test_giving_way_is_from_the_other_flows_beginning_and_a_slow_down_is_none() -> None:
    assert gives_way_s(samples((1.0, 22.0), (0.05, 50.0)), MOMENTS, LINK_BPS) == pytest.approx(2.0, abs=0.3)
    # Half a second of nothing is a slow-down.
    assert gives_way_s(samples((1.0, 22.0), (0.0, 22.8), (1.0, 26.0), (0.05, 50.0)), MOMENTS, LINK_BPS) == pytest.approx(6.0, abs=0.3)
    assert gives_way_s(samples((1.0, 50.0)), MOMENTS, LINK_BPS) == 15.0


def test_taking_back_is_from_the_other_flows_end_however_much_was_had_before() -> None:
    back = samples((1.0, 34.5), (0.05, 38.0), (0.95, 50.0))
    assert takes_back_s(back, MOMENTS, LINK_BPS) == pytest.approx(4.0, abs=0.3)
    assert takes_back_s(samples((1.0, 50.0)), MOMENTS, LINK_BPS) == pytest.approx(1.0, abs=0.01)
    assert takes_back_s(samples((1.0, 35.0), (0.05, 50.0)), MOMENTS, LINK_BPS) == 15.0


def test_round_trips_are_read_with_their_moments() -> None:
    text = (
        "PING 198.18.0.2 (198.18.0.2) 56(84) bytes of data.\n"
        "[1790000000.100000] 64 bytes from 198.18.0.2: icmp_seq=1 ttl=64 time=40.1 ms\n"
        "[1790000000.300000] no answer yet for icmp_seq=2\n"
        "[1790000000.500000] 64 bytes from 198.18.0.2: icmp_seq=3 ttl=64 time=95 ms\n"
    )
    answers = round_trips(text)
    assert answers == [(1790000000.1, 40.1), (1790000000.5, 95.0)]
    assert added_ms(answers, 1790000000.0, 1790000001.0, 40.0) == pytest.approx(27.55)


def test_every_case_has_its_turn_in_each_repeat_and_the_seed_decides_the_order() -> None:
    turns = order(["a", "b", "c"], 4, 1)
    assert all(Counter(turns[at : at + 3]) == Counter("abc") for at in range(0, 12, 3))
    assert turns == order(["a", "b", "c"], 4, 1)
    assert turns != order(["a", "b", "c"], 4, 2)


def test_a_row_keeps_every_repeat_and_judges_pairs() -> None:
    row = row_of("quic_vs_tcp", [80.0, 90.0, 100.0], "Mb/s", "", reference=[100.0, 100.0, 50.0])
    assert (row.value, row.reference, row.ratio) == (90.0, 100.0, 0.9)
    assert (row.more["runs"], row.more["reference_runs"]) == ([80.0, 90.0, 100.0], [100.0, 100.0, 50.0])
    assert row.more["interval_95"] == [0.8, 2.0]


def test_the_error_of_a_cap_counts_both_ways() -> None:
    assert p99_error([99.0] * 99 + [90.0], 100.0) == pytest.approx(0.1)
    assert p99_error([101.0] * 100, 100.0) == pytest.approx(0.01)


def all_measured() -> Measured:
    """Every case once: the mover moves 200 Mb/s, its peers half of that, and with losses the peers have twice the mover's share."""
    measured = Measured(loads=[1.0])
    for name in PROTOCOLS:
        measured.moved[name] = [Moved(2e8, 3.0)]
        measured.cap[name], measured.switch[name] = [0.01], [0.1]
    for name in (QUIC_PEER, IPERF3):
        measured.moved[name] = [Moved(1e8, 1.5)]
    for name in LOSSY_CASES:
        measured.lossy[name] = [Moved(5e7, 2.0)]
    for name in (*LOSSY_PEERS, LIBUDT):
        measured.lossy[name] = [Moved(1e8, 2.0)]
    for who in SLOW_RECEIVER_CASES:
        measured.to_slow[who] = [MovedToSlow(8e7, 0.012351, 0.011, 0.0)]
    for flow, alone in (("ledbat", 0.9), ("utp", 0.7)):
        for suffix in SCAVENGED:
            measured.yielded[flow, suffix] = [Yielding(alone, 0.05, 2.0, 3.0, 40.0, 0.9)]
    return measured


def test_all_rows_are_there_once_every_case_had_its_turn() -> None:
    measured = all_measured()
    rows = rows_of(measured)
    assert Counter(row.name for row in rows) == Counter(ROWS)
    assert set(GOALS) <= {name for part in PARTS for name in part.rows}
    kinds = (measured.moved, measured.cap, measured.switch, measured.lossy, measured.to_slow, measured.yielded)
    assert len(cases()) == len(set(cases())) == sum(len(kind) for kind in kinds)


def test_a_peer_stands_beside_the_movers_runs_of_the_same_repeats() -> None:
    rows = {row.name: row for row in rows_of(all_measured())}
    for name in ("quic_vs_peer", "tcp_vs_iperf3"):
        assert (rows[name].value, rows[name].reference, rows[name].ratio) == (200.0, 100.0, 2.0)
        assert rows[name].more["cpu_s_per_gb_peer"] == 1.5
    for name, peer in LOSSY_PEERS.items():
        assert (rows[name].value, rows[name].reference, rows[name].ratio) == (0.5, 0.25, 2.0)
        assert peer.beside in LOSSY_CASES and peer.beside in rows[name].note


def test_quinns_bbr_stands_beside_the_kernels_by_the_same_repeats() -> None:
    moved = {"TCP": [Moved(1.6e8, 3.0)], "QUIC": [Moved(1.2e8, 9.0)]}
    beside = {"TCP": [Yielding(0.9, 0.4, 15.0, 1.0, 20.0, 0.55)], "QUIC": [Yielding(0.9, 0.8, 15.0, 1.0, 20.0, 0.15)]}
    lossy, shared = bbr.rows_of(moved, beside)
    assert (lossy.value, lossy.reference, lossy.ratio) == (0.6, 0.8, 0.75)
    assert (shared.value, shared.reference, shared.ratio) == (0.8, 0.4, 2.0)
    assert (shared.more["cubic_share_runs_tcp"], shared.more["cubic_share_runs_quic"]) == ([0.55], [0.15])


def test_a_slow_receiver_has_a_share_of_what_it_takes_and_what_was_sent_again_for_each_who() -> None:
    assert SLOW_RECEIVER.bps == pytest.approx(100e6)
    rows = {row.name: row for row in rows_of(all_measured())}
    for who in ("tcp", "quic", "udt", "udt_reported"):
        share_of, resent = rows[f"{who}_slow_receiver"], rows[f"resent_{who}_slow_receiver"]
        assert (share_of.value, share_of.unit, share_of.more["dropped_by_path_runs"]) == (0.8, "share", [0.0])
        assert resent.value == pytest.approx(0.0123)
        assert resent.more["runs"] == [0.01235]


def test_each_flow_that_gives_way_has_the_same_figures_on_each_path() -> None:
    rows = {row.name: row for row in rows_of(all_measured())}
    for suffix in SCAVENGED:
        for ours, theirs in zip(SCAVENGER_ROWS["ledbat"], SCAVENGER_ROWS["utp"], strict=True):
            assert rows[f"{ours}{suffix}"].unit == rows[f"{theirs}{suffix}"].unit
        assert (rows[f"ledbat_alone{suffix}"].value, rows[f"utp_alone{suffix}"].value) == (0.9, 0.7)
        assert rows[f"utp_beside_cubic{suffix}"].more["cubic_share_runs"] == [0.9]
    (alone, *_) = scavenger_rows("utp", [Yielding(0.9, 0.05, 2.0, 3.0, 40.0, 0.9)], "", "")
    assert (alone.name, alone.value) == ("utp_alone", 0.9)
