"""What the bench of the choice of protocol plans, and what it concludes from runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fairlead.api.transferjob.status import ProtocolInForce
from fairlead.core.paths.model import EngineResult
from fairlead.core.reports import Verdict
from fairlead_dev.bench.engines.figures import (
    EngineMove,
    EngineTrial,
    HarmTrial,
    harm_trials_of,
    move_of,
    rows,
    shown,
    stored_move,
    trials_of,
)
from fairlead_dev.bench.engines.measure import kept_of
from fairlead_dev.bench.engines.plan import (
    COMPANIES,
    FULL,
    MEASURED,
    QUICK,
    Effort,
    HarmRun,
    MoveRun,
    allowed_protocols,
    companies,
    default_options,
    harm_runs,
    move_runs,
    one_of_each_kind,
    transfer_bytes,
)
from fairlead_dev.bench.rows import Row
from fairlead_dev.testbed.scenario.model import Policing
from fairlead_dev.testbed.sealed.engine_paths import EnginePath

BEGAN = datetime(2027, 1, 2, tzinfo=UTC)


def path(**fields: Any) -> EnginePath:
    return EnginePath(**{"rate_bps": 100_000_000, "rtt_ms": 150.0, "buffer_bdp": 1.0, **fields})


OPEN, CAPPED = path(), path(cap_bps=80_000_000)
POLICED, BLOCKED = path(police_udp=Policing(rate_bps=5_000_000), cap_bps=80_000_000), path(udp_blocked=True)


def moved(protocol: ProtocolInForce, mbps: float | None, at_s: float = 0.0, resent: float = 0.0) -> EngineMove:
    """A transfer; None for one whose UDP did not get through, and which TCP carried at 40 Mb/s."""
    goodput_bps = None if mbps is None else mbps * 1e6
    kept = EngineResult(BEGAN + timedelta(seconds=at_s), protocol, goodput_bps, resent_ratio=resent, cpu_seconds_per_gb=2.0)
    return EngineMove(40e6 if goodput_bps is None else goodput_bps, kept)


def trial(where: EnginePath, name: str = "e0", resent: float = 0.0, **mbps: Sequence[float | None]) -> EngineTrial:
    """The goodputs of each protocol's repeats, the evidence first."""
    names: Mapping[str, ProtocolInForce] = {"tcp": "TCP", "quic": "QUIC", "udt": "UDT"}
    moves = {
        names[key]: [moved(names[key], each, at, resent if key != "tcp" else 0.0) for at, each in enumerate(rates)]
        for key, rates in mbps.items()
    }
    return EngineTrial(name, where, moves, cpus=2)


@pytest.mark.parametrize(
    ("where", "allowed"),
    [(OPEN, ("TCP", "QUIC")), (CAPPED, ("TCP", "QUIC")), (POLICED, ("TCP",)), (BLOCKED, ("TCP",))],
    ids=["open", "a cap", "policed", "blocked"],
)
def test_udp_that_is_policed_or_blocked_allows_tcp_alone(where: EnginePath, allowed: tuple[str, ...]) -> None:
    assert allowed_protocols(where) == allowed


def test_every_protocol_has_a_turn_in_each_repeat_in_an_order_by_the_seed() -> None:
    paths = {"e0": OPEN, "e1": CAPPED}
    runs = move_runs(paths, FULL, 1)
    assert Counter((run.path, run.protocol) for run in runs) == {(name, protocol): FULL.repeats for name in paths for protocol in MEASURED}
    assert [run.number for run in runs] == sorted(run.number for run in runs)
    assert runs == move_runs(paths, FULL, 1) != move_runs(paths, FULL, 2)
    assert len({run.name for run in runs} | {run.scout for run in runs}) == len(runs) + len(paths) * len(MEASURED)


def test_harm_is_measured_in_every_company_on_paths_that_the_seed_chose() -> None:
    paths = {f"e{number}": OPEN if number % 2 else CAPPED for number in range(8)}
    runs = harm_runs(paths, FULL, 1)
    assert len({run.path for run in runs}) == FULL.harm_paths
    assert Counter((run.path, run.company) for run in runs) == {
        (name, company): FULL.harm_repeats for name in {run.path for run in runs} for company in companies(paths[name])
    }
    assert runs == harm_runs(dict(reversed(paths.items())), FULL, 1) != harm_runs(paths, FULL, 2)
    assert len(harm_runs({"e0": OPEN}, FULL, 1)) == len(COMPANIES) * FULL.harm_repeats


def test_one_more_flow_is_also_measured_without_the_limit_of_the_job() -> None:
    assert (companies(OPEN), companies(CAPPED)) == (COMPANIES, (*COMPANIES, "cubic-unlimited"))


def test_the_whole_run_is_within_its_time_and_a_quick_one_shows_every_kind_of_path() -> None:
    paths = {"e0": OPEN, "e1": POLICED, "e2": BLOCKED, "e3": CAPPED, "e4": POLICED}
    assert list(one_of_each_kind(paths)) == ["e1", "e2", "e3"]
    assert one_of_each_kind({"e0": OPEN}) == {}
    assert QUICK.repeats > 1
    eight = {f"e{number}": where for number, where in enumerate([CAPPED] * 5 + [OPEN] * 3)}
    assert estimate_s(eight, FULL) < 60 * 60


def estimate_s(paths: Mapping[str, EnginePath], effort: Effort) -> float:
    runs, overhead_s = move_runs(paths, effort, 1), 5.0
    scouts = len({run.scout for run in runs}) * (effort.scout_s + overhead_s)
    harms = len(harm_runs(paths, effort, 1)) * (effort.settle_s + effort.flow_s + overhead_s)
    return scouts + len(runs) * (effort.move_s + overhead_s) + harms


@pytest.mark.parametrize(
    ("rate_bps", "size_bytes"),
    [(200e6, 375_000_000), (4e6, 12_000_000), (1e6, 7_500_000), (0.0, 1_000_000)],
    ids=["as long as asked", "enough to be kept", "a minute", "nothing came"],
)
def test_a_transfer_is_so_large_that_it_lasts_as_long_as_asked(rate_bps: float, size_bytes: int) -> None:
    assert transfer_bytes(rate_bps, 15.0) == size_bytes


def test_a_transfer_has_what_a_default_job_starts_with_and_its_cap() -> None:
    assert default_options("TCP", None) == ("--protocol", "TCP", "--streams", "4", "--congestion-control", "cubic")
    assert default_options("QUIC", 80_000_000)[-4:] == ("--congestion-control", "cubic", "--bandwidth", "80000000")


def test_what_is_kept_of_a_transfer_is_what_the_operator_keeps() -> None:
    def verdict(**fields: Any) -> Verdict:
        return Verdict("local", 1, "Succeeded", "Verified", "", retry=False, **fields)

    arrived = verdict(bytes_transferred=125_000_000, bulk_seconds=10.0)
    said = verdict(protocol="QUIC", retransmitted_bytes=1_250_000, cpu_seconds=0.5)
    assert kept_of("QUIC", said, arrived, BEGAN, 110_000_000) == EngineResult(
        BEGAN, "QUIC", 100e6, at_cap=True, resent_ratio=0.01, cpu_seconds_per_gb=4.0
    )
    assert kept_of("UDT", verdict(protocol="TCP"), arrived, BEGAN, None) == EngineResult(BEGAN, "UDT", None)
    assert kept_of("QUIC", said, verdict(bytes_transferred=1_000_000, bulk_seconds=10.0), BEGAN, None) is None


def test_a_choice_is_scored_by_the_repeats_that_it_did_not_go_by() -> None:
    # By the evidence QUIC is twice as fast; in the others it is the slower one.
    unlucky = trial(OPEN, tcp=[40, 80, 84], quic=[80, 41, 41])
    assert (unlucky.chosen, unlucky.best) == ("QUIC", "TCP")
    assert unlucky.score("QUIC") == pytest.approx(0.5)
    assert unlucky.score("TCP") == 1.0


@pytest.mark.parametrize(
    ("measured", "chosen", "best", "score", "without"),
    [
        (trial(CAPPED, tcp=[10, 10, 10], quic=[12, 20, 20]), "QUIC", "QUIC", 1.0, 0.5),
        (trial(OPEN, tcp=[10, 10, 10], quic=[10.5, 20, 20]), "TCP", "QUIC", 0.5, 0.5),
        (trial(POLICED, resent=0.5, tcp=[10, 10, 10], quic=[40, 40, 40]), "TCP", "TCP", 1.0, 1.0),
        (trial(BLOCKED, tcp=[10, 40, 40], quic=[None, None, None]), "TCP", "TCP", 1.0, 1.0),
        (trial(POLICED, tcp=[10, 10, 10], quic=[40, 40, 40]), "QUIC", "TCP", 1.0, 1.0),
    ],
    ids=["clearly faster", "a tie by the evidence", "policed and seen to be", "blocked", "policed and not noticed"],
)
def test_what_is_chosen_is_held_against_the_best_that_is_allowed(
    measured: EngineTrial, chosen: str, best: str, score: float, without: float
) -> None:
    assert (measured.chosen, measured.best) == (chosen, best)
    assert measured.score(measured.chosen) == pytest.approx(score)
    assert measured.score("TCP") == pytest.approx(without)


def test_a_path_counts_once_every_protocol_has_been_scored_and_nothing_counts_behind_a_gap() -> None:
    runs = {MoveRun("e0", protocol, number): moved(protocol, 50) for protocol in ("TCP", "QUIC") for number in range(2)}
    (whole,) = trials_of({"e0": OPEN}, runs, cpus=2)
    assert (whole.has_evidence, whole.is_complete) == (True, True)
    del runs[MoveRun("e0", "QUIC", 1)]
    (begun,) = trials_of({"e0": OPEN}, runs, cpus=2)
    assert (begun.has_evidence, begun.is_complete, rows([begun], [])) == (True, False, [])
    runs[MoveRun("e0", "TCP", 2)] = runs.pop(MoveRun("e0", "TCP", 0))
    (torn,) = trials_of({"e0": OPEN}, runs, cpus=2)
    assert (torn.has_evidence, torn.moves["TCP"]) == (False, [])


def by_name(found: Sequence[Row]) -> dict[str, Row]:
    return {row.name: row for row in found}


def test_the_rows_are_of_all_paths_and_say_where_udp_was_used_against_the_path() -> None:
    trials = [
        trial(CAPPED, "e0", tcp=[10, 10, 10], quic=[12, 20, 20]),
        trial(OPEN, "e1", tcp=[10, 10, 10], quic=[10.5, 20, 20]),
        trial(BLOCKED, "e2", tcp=[10, 40, 40], quic=[None, None, None]),
    ]
    found = by_name(rows(trials, []))
    assert (found["auto_vs_best_engine_mean"].value, found["auto_vs_best_engine_mean"].ok) == (pytest.approx(2.5 / 3, abs=1e-4), False)
    assert (found["auto_vs_best_engine_worst"].value, found["auto_vs_best_engine_worst"].more["path"]) == (0.5, "e1")
    assert found["auto_vs_best_engine_mean"].more["mean_where_udp_is_open"] == 0.75
    assert found["auto_without_evidence_vs_best_mean"].value == pytest.approx((0.5 + 0.5 + 1) / 3, abs=1e-4)
    assert (found["auto_without_evidence_vs_best_worst"].more["path"], found["auto_without_evidence_vs_best_worst"].ok) == ("e0", None)
    assert (found["auto_udp_where_policed"].value, found["auto_udp_where_policed"].ok) == (0, True)
    assert found["path_e2"].more["verdicts"] == {"TCP": "Chosen", "QUIC": "UdpBlocked", "UDT": "UdpBlocked"}
    unseen = by_name(rows([trial(POLICED, tcp=[10, 10, 10], quic=[40, 40, 40])], []))
    assert (unseen["auto_udp_where_policed"].value, unseen["auto_udp_where_policed"].ok) == (1, False)


@pytest.mark.parametrize(
    ("beside_auto", "value", "cubic", "reached"),
    [((45.0, 47.0), 0.54, 0.5, False), ((60.0, 60.0), 0.4, 0.5, True)],
    ids=["more than one more flow", "less"],
)
def test_harm_is_held_against_one_more_flow_on_the_path_where_the_job_does_most(
    beside_auto: tuple[float, float], value: float, cubic: float, reached: bool
) -> None:
    one = trial(OPEN, tcp=[10, 10, 10], quic=[10, 10, 10])
    gentle = HarmTrial("e7", "TCP", {"nobody": [100e6], "cubic": [10e6], "auto": [90e6]})
    flows = {"nobody": (100.0, 100.0), "cubic": (52.0, 48.0), "auto": beside_auto}
    runs = {HarmRun("e0", company, number): mbps * 1e6 for company in COMPANIES for number, mbps in enumerate(flows[company])}
    found = by_name(rows([one], [*harm_trials_of([one], runs), gentle]))
    harm = found["harm_worst_auto"]
    assert (harm.value, harm.reference, harm.ok) == (pytest.approx(value), cubic, reached)
    assert found["harm_one_more_cubic"].value == cubic
    assert set(harm.more["paths"]) == {"e0", "e7"}
    assert found["harm_beyond_one_more_cubic"].value == pytest.approx(value - cubic)


def test_a_job_that_does_no_harm_where_another_flow_does_is_judged_where_it_does_some() -> None:
    one = trial(OPEN, tcp=[10, 10, 10], quic=[10, 10, 10])
    gentle = HarmTrial("e7", "TCP", {"nobody": [100e6], "cubic": [10e6], "auto": [90e6]})
    harmless = HarmTrial("e0", "TCP", {"nobody": [100e6], "cubic": [50e6], "auto": [120e6]})
    harm = by_name(rows([one], [harmless, gentle]))["harm_worst_auto"]
    assert (harm.value, harm.reference, harm.ok) == (0.1, 0.9, True)
    assert harm.more["paths"]["e0"]["harm"] == {"nobody": 0.0, "cubic": 0.5, "auto": 0.0}


def test_a_flow_that_was_not_measured_in_every_company_shows_no_harm() -> None:
    one = trial(OPEN, tcp=[10, 10, 10], quic=[10, 10, 10])
    assert harm_trials_of([one], {HarmRun("e0", "auto", 0): 1e6, HarmRun("e0", "nobody", 0): 1e6}) == []
    assert "harm_worst_auto" not in by_name(rows([one], []))


def test_a_transfer_is_read_back_as_it_was_written() -> None:
    for each in (moved("QUIC", 50, resent=0.01), moved("UDT", None), EngineMove(1e6, None)):
        assert move_of(stored_move(each)) == each


def test_a_path_is_shown_in_a_line() -> None:
    assert shown(path(loss_ratio=0.001)) == "100 Mb/s, 150 ms, 1 BDP, loss 0.10%"
    assert shown(POLICED) == "100 Mb/s, 150 ms, 1 BDP, UDP 5 Mb/s, cap 80 Mb/s"
    assert shown(BLOCKED) == "100 Mb/s, 150 ms, 1 BDP, UDP blocked"
