from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from fairlead_dev.testbed.dataset.bursts import PUSHES_S, TRAIN_PACKETS, TRAINS_S, bursts_of
from fairlead_dev.testbed.dataset.classes import BackgroundClass, Split, TrafficKind
from fairlead_dev.testbed.dataset.draw import draw_paths
from fairlead_dev.testbed.dataset.plan import PlannedRun, plan_runs
from fairlead_dev.testbed.dataset.specification import DATASETS, Specification
from fairlead_dev.testbed.dataset.traffic import LOSS_RATIO, MANY_FLOWS
from fairlead_dev.testbed.scenario.load import load_toml
from fairlead_dev.testbed.scenario.model import BURST_PACKET_BYTES, Path

from ..build import DRAWN, specification


def of_kind(kind: TrafficKind, *classes: str, paths: int = 4) -> tuple[PlannedRun, ...]:
    runs = plan_runs(specification(kinds=[{"kind": kind, "paths": paths, "classes": classes}]))
    return tuple(run for run in runs if run.kind is kind)


def background_counts(run: PlannedRun) -> tuple[int, int]:
    controls = [flow.congestion_control for flow in run.scenario.flows if flow.role == "background" and flow.protocol == "tcp"]
    return controls.count("bbr"), controls.count("cubic")


def test_the_plan_is_a_function_of_the_specification() -> None:
    assert plan_runs(specification()) == plan_runs(specification())
    assert plan_runs(specification()) != plan_runs(specification(seed=8))


def test_names_are_those_that_the_classifiers_evaluation_reads_and_differ() -> None:
    names = [run.name for run in plan_runs(specification(kinds=[{"kind": "loss", "paths": 3, "classes": ["B1-B1"]}]))]
    assert len(set(names)) == len(names)
    assert all(len(name.split("__")) == 3 and name.split("__")[1] in set(BackgroundClass) for name in names)


def test_no_run_of_an_unseen_path_and_no_test_seed_is_trained_on() -> None:
    runs = plan_runs(specification(kinds=[{"kind": "udp_bursts", "paths": 16, "classes": ["B0-C0", "B1-C0"]}]))
    of_split = {split: [run for run in runs if run.split is split] for split in Split}
    trained_paths = {run.path_id for run in of_split[Split.TRAIN]}
    assert not trained_paths & {run.path_id for run in of_split[Split.TEST_PATHS]}
    assert {run.path_id for run in of_split[Split.TEST_SEEDS]} == trained_paths
    assert all(run.kind is TrafficKind.STEADY for run in of_split[Split.TRAIN])
    seeds = [run.scenario.seed for run in runs]
    assert len(set(seeds)) == len(seeds)


def test_every_known_path_has_every_class_and_seed() -> None:
    counts = Counter((run.split, run.path_id, run.background) for run in plan_runs(specification()))
    assert {count for (split, *_), count in counts.items() if split is Split.TRAIN} == {2}
    assert {count for (split, *_), count in counts.items() if split is Split.TEST_SEEDS} == {1}
    assert {count for (split, *_), count in counts.items() if split is Split.TEST_PATHS} == {2}
    assert len(counts) == (12 * 2 + 4) * 6


def test_runs_with_bursts_are_of_known_paths_and_of_a_split_of_their_own() -> None:
    runs = [run for run in plan_runs(specification(burst_seeds=2)) if run.kind is TrafficKind.BURSTS]
    assert Counter(run.path_id for run in runs) == {drawn.id: 12 for drawn in draw_paths(specification()) if not drawn.unseen}
    assert all(run.split is Split.BURSTS and run.scenario.probe.bursts for run in runs)
    assert not any(run.scenario.probe.bursts for run in plan_runs(specification()))


@pytest.mark.parametrize("rtt_ms", [5, 60, 250])
@pytest.mark.parametrize("rate_bps", [20_000_000, 500_000_000])
def test_bursts_keep_to_the_active_part_and_cost_half_a_second_of_the_path(rtt_ms: float, rate_bps: int) -> None:
    bursts = bursts_of(Path(rate_bps=rate_bps, rtt_ms=rtt_ms, buffer_bdp=1), 60)
    assert len(bursts) == 2 * (len(TRAINS_S) + len(PUSHES_S))
    assert all(burst.start_s % 30 >= 20 and burst.start_s % 30 + burst.seconds < 29 for burst in bursts)
    trains_bytes = 2 * len(TRAINS_S) * TRAIN_PACKETS * BURST_PACKET_BYTES
    pushed_bytes = sum(burst.packets * BURST_PACKET_BYTES for burst in bursts) - trains_bytes
    assert pushed_bytes * 8 / rate_bps <= 2 * 0.501
    assert trains_bytes * 8 / rate_bps <= 2 * 0.06


def test_the_flows_of_a_run_are_those_of_its_class() -> None:
    for run in plan_runs(specification()):
        bbr, cubic = background_counts(run)
        expected = {
            "B0-C0": (bbr, cubic) == (0, 0),
            "B0-C1": (bbr, cubic) == (0, 1),
            "B1-C0": (bbr, cubic) == (1, 0),
            "B1-C1": 1 <= bbr <= 2 and 1 <= cubic <= 2,
            "B1-B1": 2 <= bbr <= 4 and cubic == 0,
            "C1-C1": 2 <= cubic <= 4 and bbr == 0,
        }
        assert expected[run.background], run.name


def test_some_sources_have_one_flow_and_some_more() -> None:
    counts = Counter(background_counts(run) for run in plan_runs(specification()) if run.background == "B1-C1")
    assert counts[1, 1] > counts[2, 1] > 0
    assert counts[1, 2] > 0


def test_flows_start_in_the_first_part_of_the_warm_up_each_at_its_own_time() -> None:
    for run in plan_runs(specification()):
        starts = [flow.start_s for flow in run.scenario.flows]
        assert all(start is not None and -run.scenario.warm_up_s <= start <= -0.6 * run.scenario.warm_up_s + 0.01 for start in starts)
        assert len(set(starts)) == len(starts)


def test_drawn_paths_cover_their_ranges() -> None:
    paths = draw_paths(specification())
    rtts = sorted(drawn.path.rtt_ms for drawn in paths)
    assert 5 <= rtts[0] < 8 and 160 < rtts[-1] <= 250
    rates = sorted(drawn.path.rate_bps for drawn in paths)
    assert rates[0] >= 20e6 and rates[-1] <= 500e6
    assert sum(rate > 120e6 for rate in rates) == 2
    losses = [drawn.path.loss_ratio for drawn in paths]
    assert losses.count(0.0) == 8
    assert all(1e-6 <= loss <= 1e-4 for loss in losses if loss)
    assert sum(drawn.unseen for drawn in paths) == 4


def test_paths_for_training_alone_leave_all_other_runs_as_they_were() -> None:
    kinds = [{"kind": "loss", "paths": 3, "classes": ["B0-C0"]}]
    before = plan_runs(specification(kinds=kinds))
    after = plan_runs(specification(kinds=kinds, drawn_paths={**DRAWN, "training_only": 5}))
    more = [run for run in after if run not in before]
    assert [run for run in after if run in before] == list(before)
    assert {run.path_id for run in more} == {"t0", "t1", "t2", "t3", "t4"}
    assert len(more) == 5 * len(BackgroundClass)
    assert {run.split for run in more} == {Split.TRAIN}


def test_queues_policing_and_thinning_are_drawn_evenly_and_leave_all_else_of_the_paths_as_it_was() -> None:
    more = {
        "queue": ["drop-tail", "fq-codel"],
        "police_udp": {"low": 0.05, "high": 0.5},
        "police_udp_share": 0.25,
        "thin_acks": [1, 2, 4, 8],
    }
    paths, before = draw_paths(specification(drawn_paths={**DRAWN, **more})), draw_paths(specification())
    plain = {"queue": "drop-tail", "police_udp": None, "thin_acks": 1}
    assert [one.path.model_copy(update=plain) for one in paths] == [one.path for one in before]
    assert Counter(one.path.queue for one in paths) == {"drop-tail": 8, "fq-codel": 8}
    assert Counter(one.path.thin_acks for one in paths) == {1: 4, 2: 4, 4: 4, 8: 4}
    policed = [one.path for one in paths if one.path.police_udp]
    assert len(policed) == 4
    assert all(path.police_udp and 0.04 <= path.police_udp.rate_bps / path.rate_bps <= 0.51 for path in policed)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"queue": ["drop-tail", "sfq"]}, r"queue\.1", id="unknown queue"),
        pytest.param({"queue": []}, "queue", id="no queue"),
        pytest.param({"thin_acks": [0]}, r"thin_acks\.0", id="no acknowledgement at all"),
        pytest.param({"police_udp_share": 0.5}, "police_udp_share needs police_udp", id="share of nothing"),
        pytest.param({"emulator": "kernel", "queue": ["drop-tail", "codel"]}, 'queue: emulator = "kernel"', id="the kernel's CoDel"),
        pytest.param({"emulator": "kernel", "thin_acks": [1, 4]}, 'thin_acks: emulator = "kernel"', id="thinning by the kernel"),
    ],
)
def test_treatments_that_there_are_not_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        specification(drawn_paths={**DRAWN, **changes})


def test_a_buffer_is_drawn_up_to_the_least_delay_of_a_full_queue() -> None:
    drawn_paths = {**specification().drawn_paths.model_dump(), "least_full_queue_ms": 20}
    paths, before = draw_paths(specification(drawn_paths=drawn_paths)), draw_paths(specification())
    assert min(one.path.full_queue_ms for one in before) < 10
    for now, then in zip(paths, before, strict=True):
        if then.path.full_queue_ms > 20.5:
            assert now == then
        else:
            assert now.path.full_queue_ms == pytest.approx(20, rel=0.2)


def test_the_kinds_never_trained_on_are_what_their_names_say() -> None:
    for run in of_kind(TrafficKind.ON_OFF, "B1-C1"):
        assert all(flow.pattern.kind == "on_off" for flow in run.scenario.flows)
    for run in of_kind(TrafficKind.UDP_BURSTS, "B0-C0", "B1-C0"):
        (udp,) = (flow for flow in run.scenario.flows if flow.protocol == "udp")
        assert udp.rate_bps is not None and udp.rate_bps < run.scenario.path.rate_bps
    for run in of_kind(TrafficKind.MANY_FLOWS, "B1-C1", paths=8):
        assert max(background_counts(run)) in MANY_FLOWS
    for run in of_kind(TrafficKind.LOSS, "B0-C1"):
        assert LOSS_RATIO[0] <= run.scenario.path.loss_ratio <= LOSS_RATIO[1]


def test_an_active_run_has_the_papers_profile_from_the_start_of_the_recording() -> None:
    fixed = {"id": "fixed", "path": {"rate_bps": 50_000_000, "rtt_ms": 40, "buffer_bdp": 1}, "duration_s": 60}
    runs = plan_runs(specification(fixed_paths=[{**fixed, "train_seeds": 0, "test_seeds": 0, "active_seeds": 1, "active_duration_s": 80}]))
    (run,) = (run for run in runs if run.kind is TrafficKind.ACTIVE and run.background == "B1-C0")
    assert run.split is Split.ACTIVE
    assert run.scenario.duration_s == 80
    profile = {flow.congestion_control: (flow.start_s, flow.pattern) for flow in run.scenario.flows if flow.role == "foreground"}
    assert profile["cubic"][0] == 0 and profile["cubic"][1].model_dump() == {"kind": "on_off", "on_s": 5, "off_s": 5}
    assert profile["bbr"][0] == 5 and profile["bbr"][1].model_dump() == {"kind": "on_off", "on_s": 5, "off_s": 15}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"kinds": [{"kind": "steady", "paths": 1, "classes": ["B0-C1"]}]}, "has its own seeds", id="steady"),
        pytest.param(
            {"kinds": [{"kind": "many_flows", "paths": 1, "classes": ["B0-C1"]}]}, "needs 2 source", id="many flows of one source"
        ),
        pytest.param({"kinds": [{"kind": "on_off", "paths": 1, "classes": ["B0-C0"]}]}, "needs 1 source", id="a wave of nothing"),
        pytest.param({"drawn_paths": {**DRAWN, "rtt_ms": {"low": 9, "high": 5}}}, "must not exceed", id="range upside down"),
        pytest.param({"drawn_paths": {**DRAWN, "fast_rate_bps": None}}, "needs fast_rate_bps", id="fast without a rate"),
        pytest.param({"train_seeds": 0}, "train_seeds", id="nothing to train on"),
    ],
)
def test_a_bad_specification_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        specification(**changes)


@pytest.mark.parametrize("file", sorted(DATASETS.glob("*.toml")), ids=lambda file: file.stem)
def test_every_data_set_that_comes_along_can_be_planned(file: Any) -> None:
    known = load_toml(file, Specification)
    assert known.name == file.stem
    assert {run.background for run in plan_runs(known)} == set(BackgroundClass)


def planned(name: str) -> tuple[PlannedRun, ...]:
    return plan_runs(load_toml(DATASETS / f"{name}.toml", Specification))


def test_the_kernels_set_has_each_class_on_slow_paths_mostly_and_on_some_fast_ones() -> None:
    runs = planned("kernel-queue")
    assert Counter(run.background for run in runs) == dict.fromkeys(BackgroundClass, 20)
    assert {(run.split, run.kind, run.scenario.path.emulator) for run in runs} == {(Split.TEST_PATHS, TrafficKind.STEADY, "kernel")}
    rates = {run.path_id: run.scenario.path.rate_bps for run in runs}.values()
    assert min(rates) >= 20e6 and 200e6 < max(rates) <= 400e6
    assert sum(rate > 100e6 for rate in rates) == 4


def test_the_kernels_set_has_a_twin_that_differs_by_its_emulator_alone() -> None:
    for run, twin in zip(planned("kernel-queue"), planned("kernel-queue-twin"), strict=True):
        assert twin.scenario.path.emulator == "fairlead-wan"
        path = run.scenario.path.model_copy(update={"emulator": "fairlead-wan"})
        assert twin == replace(run, scenario=run.scenario.model_copy(update={"path": path}))


def test_the_fair_sets_paths_all_share_by_themselves() -> None:
    runs = planned("fair-queue")
    assert Counter(run.background for run in runs) == dict.fromkeys(BackgroundClass, 10)
    assert {(run.scenario.path.queue, run.scenario.path.emulator) for run in runs} == {("fq-codel", "fairlead-wan")}


@pytest.mark.parametrize("name", ["kernel-queue", "fair-queue"])
def test_paths_for_a_second_opinion_are_in_no_set_that_anything_is_trained_on(name: str) -> None:
    plain = {"queue": "drop-tail", "emulator": "fairlead-wan"}
    asked = {run.path_id: run.scenario.path.model_copy(update=plain) for run in planned(name)}
    for other in ("full", "pilot", "bursts"):
        known = {run.path_id: run.scenario.path for run in planned(other)}
        assert not asked.keys() & known.keys()
        assert not set(asked.values()) & set(known.values())
