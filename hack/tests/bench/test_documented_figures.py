"""The tables of the pages are those of the files of figures beside them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any

import pytest

from fairlead_dev.bench.classifier import rivals
from fairlead_dev.bench.decisions.matrix import CHANGING_S
from fairlead_dev.bench.decisions.timeline import ControlSpan, right_share
from fairlead_dev.bench.fairness.__main__ import GOALS as FAIRNESS_GOALS
from fairlead_dev.bench.guard.parts import GOALS as GUARD_GOALS
from fairlead_dev.bench.mover.plan import GOALS as MOVER_GOALS
from fairlead_dev.bench.mover.plan import PARTS as MOVER_PARTS
from fairlead_dev.bench.placement.jobs import GOALS as INTERFACES_GOALS
from fairlead_dev.bench.placement.jobs import PARTS as INTERFACES_PARTS
from fairlead_dev.bench.placement.parts import GOALS as PLACEMENT_GOALS
from fairlead_dev.bench.placement.parts import PARTS as PLACEMENT_PARTS
from fairlead_dev.bench.rows import Goal, markdown
from fairlead_dev.bench.runner import Part
from fairlead_dev.bench.transports.parts import GOALS as TRANSPORTS_GOALS
from fairlead_dev.bench.transports.parts import PARTS as TRANSPORTS_PARTS
from fairlead_dev.testbed.sealed.openings import read_openings
from fairlead_dev.testbed.sealed.sets import load_lists

from .documented import DATA, Rows, names_in, numbers_in, page_text, rows_of, shows, tables


def usual(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Those that a run has without being asked for."""
    return tuple(part for part in parts if not part.on_request)


def only(parts: Sequence[Part], name: str) -> tuple[Part, ...]:
    """The part of that name."""
    return tuple(part for part in parts if part.name == name)


def goals_of(parts: Sequence[Part], goals: Mapping[str, Goal]) -> dict[str, Goal]:
    """The goals of the rows of these parts."""
    rows = {name for part in parts for name in part.rows}
    return {name: goal for name, goal in goals.items() if name in rows}


GOALS = {
    "mover.json": goals_of(usual(MOVER_PARTS), MOVER_GOALS),
    "mover-before.json": goals_of(only(MOVER_PARTS, "before"), MOVER_GOALS),
    "fairness.json": FAIRNESS_GOALS,
    "guard.json": GUARD_GOALS,
    "placement.json": PLACEMENT_GOALS,
    "interfaces.json": INTERFACES_GOALS,
    "transports.json": goals_of(usual(TRANSPORTS_PARTS), TRANSPORTS_GOALS),
    "transports-bbr.json": goals_of(only(TRANSPORTS_PARTS, "bbr"), TRANSPORTS_GOALS),
    "transports-udt.json": goals_of(only(TRANSPORTS_PARTS, "udt"), TRANSPORTS_GOALS),
}


def test_the_movers_table_is_that_of_its_file() -> None:
    rows = [row for name, row in rows_of("mover.json").items() if name != "about"]
    assert markdown(rows) in page_text("explanation/mover-performance.md")
    assert {row["name"] for row in rows} == {name for part in MOVER_PARTS if not part.on_request for name in part.rows}


@pytest.mark.parametrize(
    ("page", "file", "parts"),
    [
        ("several-paths", "placement.json", PLACEMENT_PARTS),
        ("several-paths", "interfaces.json", INTERFACES_PARTS),
        ("transports", "transports.json", usual(TRANSPORTS_PARTS)),
        ("transports", "transports-bbr.json", only(TRANSPORTS_PARTS, "bbr")),
        ("transports", "transports-udt.json", only(TRANSPORTS_PARTS, "udt")),
        ("mover-performance", "mover-before.json", only(MOVER_PARTS, "before")),
    ],
)
def test_the_tables_of_placement_several_paths_transports_and_the_earlier_mover_are_those_of_their_files(
    page: str, file: str, parts: tuple[Part, ...]
) -> None:
    rows = [row for name, row in rows_of(file).items() if name != "about"]
    assert markdown(rows) in page_text(f"explanation/{page}.md")
    assert {row["name"] for row in rows} == {name for part in parts for name in part.rows}


def test_the_table_of_the_choice_of_protocol_is_that_of_its_file() -> None:
    rows = [row for name, row in rows_of("engines.json").items() if name != "about"]
    assert markdown(rows) in page_text("explanation/engine-choice.md")


@pytest.mark.parametrize(
    ("file", "before"),
    [
        ("load.json", "Missed are "),
        ("load-slower-machine.json", "Not reached there are "),
        ("load-10k.json", "Not reached with ten thousand are "),
    ],
)
def test_the_table_of_one_operator_under_load_and_the_goals_it_missed_are_those_of_its_file(file: str, before: str) -> None:
    rows = [row for name, row in rows_of(file).items() if name != "about"]
    page = page_text("explanation/load.md")
    assert markdown(rows) in page
    missed = page.partition(before)[2].partition(".")[0]
    assert re.findall(r"`(\w+)`", missed) == [row["name"] for row in rows if row.get("ok") is False]


@pytest.mark.parametrize(("file", "fewest"), [("fairness.json", 9), ("guard.json", 5)])
def test_the_figures_of_shared_links_are_those_of_their_files(file: str, fewest: int) -> None:
    rows = rows_of(file)
    shown = 0
    for name, cells in named_cells("how-to/share-links.md", rows):
        values = numbers_in(cells[1])
        names = names_in(cells[0], rows)
        assert len(values) == len(names), name
        for one, text in zip(names, values, strict=True):
            assert shows(text, rows[one]["value"]), f"{one}: {text}"
            shown += 1
    assert shown == fewest


def named_cells(page: str, rows: Rows) -> list[tuple[str, list[str]]]:
    return [(names[0], cells) for cells in tables(page_text(page)) if (names := names_in(cells[0], rows)) and names[0] in rows]


def test_the_decisions_table_is_that_of_the_matrix_and_of_the_stream_counts() -> None:
    rows = rows_of("decisions-full.json") | {name: row for name, row in rows_of("decisions-streams.json").items() if name != "about"}
    rows["right_choice_share_changing"] = {"value": _right_share_changing(rows, "ours"), "paper_loop": _right_share_changing(rows, "paper")}
    rows["sidecar_cpu_most"] = {**rows["sidecar_cpu_most"], "value": 100 * rows["sidecar_cpu_most"]["value"]}
    shown = set()
    for cells in tables(page_text("explanation/decisions-bench.md")):
        names = OF_SCENES.get(cells[0]) or names_in(cells[0], rows)
        if len(cells) != 5 or not set(names) & rows.keys():
            continue
        shown |= set(names)
        for column, key in ((1, "value"), (3, "paper_loop"), (4, "oracle")):
            texts = numbers_in(cells[column])
            bounds = rows[names[0]].get({"value": "interval_95", "paper_loop": "paper_loop_interval_95"}.get(key, ""))
            if bounds and texts:
                assert all(shows(text, bound) for text, bound in zip(texts[1:], bounds, strict=True)), f"{names[0]}, {key}: {texts}"
            # Where only one of them has a figure there, it is the first.
            for name, text in zip(names, texts[:1] if bounds else texts, strict=False):
                if (value := rows[name].get(key)) is None:
                    # Against itself, the oracle has 1 of everything and loses nothing to others.
                    assert (key, text) in {("oracle", "1"), ("oracle", "0")}, f"{name}, {key}: {text}"
                else:
                    assert shows(text, value), f"{name}, {key}: {text} for {value}"
    measured = {name for name, row in rows.items() if "reached" in row and row["value"] is not None}
    assert measured - shown <= {"parallelism_vs_best_fixed"}


OF_SCENES = {
    "`parallelism_vs_best_fixed` on a clean, a lossy, a shared path": [
        f"parallelism_vs_best_fixed_{scene}" for scene in ("clean", "lossy", "shared")
    ],
    "against fixed 4 and 8 there": [f"parallelism_vs_{count}_{scene}" for scene in ("clean", "lossy", "shared") for count in (4, 8)],
    "on the shared path with `--others-weight 0`": ["parallelism_vs_best_fixed_shared_competing"],
}
"""Cells that name rows in words."""


def _right_share_changing(rows: Rows, policy: str) -> float:
    """As the bench has it since then: the mean over the changing runs, which all last three minutes."""
    found = []
    for name, row in rows.items():
        if name.startswith("change_") and name.endswith(f"_{policy}"):
            edges_s = [float(from_s) for from_s, _ in row["in_force"]] + [CHANGING_S]
            spans = [
                ControlSpan(control, from_s, to_s) for (_, control), (from_s, to_s) in zip(row["in_force"], pairwise(edges_s), strict=True)
            ]
            share = right_share(spans, row["right"])
            assert share is not None
            found.append(share)
    return fmean(found)


def test_the_openings_on_the_page_are_those_of_the_log() -> None:
    table = [cells for cells in tables(page_text("explanation/sealed-sets.md")) if len(cells) == 4][1:]
    assert table == [[one.date, one.set, one.bench, one.reason] for one in read_openings()]


def test_the_sealed_sets_on_the_page_are_those_of_the_list() -> None:
    listed = {
        cells[0].strip("`"): (int(cells[1]), cells[2])
        for cells in tables(page_text("explanation/sealed-sets.md"))
        if len(cells) == 3 and cells[1].isdigit()
    }
    assert listed == {one.name: (len(one.paths), one.purpose) for sealed in load_lists() for one in sealed.sets}


def test_the_tables_of_active_probing_are_those_of_its_run() -> None:
    rows, shown = rows_of("active.json"), set()
    for cells in tables(page_text("explanation/classifier.md")):
        names = ACTIVE.get(tuple(cells[:-2]), [])
        for column, key in ((-2, "macro_f1"), (-1, "any_bbr")):
            figures = [figure.split("±") for figure in cells[column].replace("*", "").split("·")] if names else []
            # One figure where both learners have the same.
            for name, parts in zip(names, figures * (len(names) if len(figures) == 1 else 1), strict=True):
                assert shows(parts[0].strip(), rows[name][key]), f"{name}: {parts}"
                assert len(parts) == 1 or shows(parts[1].strip(), rows[name][f"{key}_spread"]), f"{name}: {parts}"
                shown.add(name)
    assert shown == rows.keys() - {"about"}


_BOTH = ("linear", "boosting")
ACTIVE = {
    ("passive, 10 s",): ["profile, passive, 10 s"],
    ("active, 10 s",): ["profile, active, 10 s"],
    ("active, 10 s, the phase of the profile known",): ["profile, active, 10 s, phase known"],
    ("passive, 20 s",): ["profile, passive, 20 s"],
    ("active, 20 s",): ["profile, active, 20 s"],
    ("active, 20 s from the start of the profile, every phase by itself",): ["profile, active, 20 s, by phase"],
    ("passive 10 s", "first step alone"): ["bursts, passive 10 s, the model alone"],
    ("**passive 20 s**", "**first step alone**"): ["bursts, passive 20 s, the model alone"],
    ("passive 10 s", "boosting on `full`"): ["bursts, passive 10 s, boosting on the data set"],
    ("passive 10 s, the rate by trains", "boosting on `full`"): ["bursts, passive 10 s, trains, boosting on the data set"],
    ("passive 10 s", "second step, linear · boosting"): [f"bursts, passive 10 s, {learner}" for learner in _BOTH],
    ("**passive 20 s**", "second step, linear · boosting"): [f"bursts, passive 20 s, {learner}" for learner in _BOTH],
    ("passive 10 s, bursts 10 s", "second step, linear · boosting"): [f"bursts, passive 10 s, bursts 10 s, {learner}" for learner in _BOTH],
    ("the same, with the rate by trains", "second step, linear · boosting"): [
        f"bursts, passive 10 s, trains and bursts, {learner}" for learner in _BOTH
    ],
    ("passive 20 s, bursts 10 s", "second step, linear · boosting"): [f"bursts, passive 20 s, bursts 10 s, {learner}" for learner in _BOTH],
}
"""Rows of the page by what they are called there."""


SPLITS = ("seeds", "paths", "kinds")
HEADLINES = {
    "macro F1": "macro_f1_{}",
    "any BBR": "any_bbr_{}",
    "any BBR, surest 80 %": "any_bbr_{}_80",
    "calibration error": "ece_{}",
    "answers at all (does not abstain)": "coverage_{}",
}
BASELINES = {
    "1-NN DTW, passive": "1-NN DTW_passive",
    "1-NN DTW, active": "1-NN DTW_active",
    "SVM (RBF), passive": "SVM RBF_passive",
    "naive Bayes, passive": "Gaussian NB_passive",
    "MLP 2x64, passive": "MLP 2x64_passive",
    "the same, stopped early": "MLP 2x64, stopped early_passive",
}
RIVALS = {
    "1-NN DTW, trained on all known paths": rivals.NEAREST,
    "1-NN DTW, trained on the path that it is asked about": rivals.NEAREST_OWN,
    "1-NN DTW, trained on both": rivals.NEAREST_BOTH,
    "MLP 2x64": "MLP 2x64",
    "MLP 2x64, stopped early": "MLP 2x64, stopped early",
    "SVM (RBF)": "SVM RBF",
    "naive Bayes": "Gaussian NB",
}


def test_the_classifiers_tables_are_those_of_its_bench() -> None:
    rows = rows_of("classifier.json")
    wanted: dict[str, list[list[float]]] = {
        **{label: [_with_interval(rows[name.format(split)]) for split in SPLITS] for label, name in HEADLINES.items()},
        **{
            label: [[rows[f"baseline_{name}_{seconds}s"]["accuracy"]] for seconds in (5, 10, 20, 30, 40, 50, 60)]
            for label, name in BASELINES.items()
        },
        "ours": [_with_interval(rows[f"{name}_{split}"]) for split in ("seeds", "paths") for name in ("macro_f1", "any_bbr")],
        **{
            label: [
                [rows[row][figure], *rows[row][f"{figure}_95"]]
                for row in (f"rival_{name}_test_seeds", f"rival_{name}_test_paths")
                for figure in ("macro_f1", "any_bbr")
            ]
            for label, name in RIVALS.items()
        },
    }
    for cells in tables(page_text("explanation/classifier.md")):
        if (label := cells[0].replace("*", "").replace("\N{MULTIPLICATION SIGN}", "x")) in wanted and len(cells) > 3:
            figures = wanted.pop(label)
            columns = cells[2 : 2 + len(figures)] if label in HEADLINES else cells[1:]
            for text, values in zip(columns, figures, strict=True):
                assert len(numbers_in(text)) == len(values), f"{label}: {text}"
                assert all(shows(one, value) for one, value in zip(numbers_in(text), values, strict=True)), f"{label}: {text} for {values}"
    assert not wanted


@pytest.mark.parametrize(("file", "which"), [("classifier-sealed.json", "first set"), ("classifier-sealed-2.json", "second set")])
def test_the_classifiers_table_of_sealed_paths_is_that_of_its_bench(file: str, which: str) -> None:
    rows, text = rows_of(file), page_text("explanation/classifier.md")
    assert rows["about"]["set"] == "sealed"
    wanted = {f"{label.partition(' (')[0]}, {which}": name for label, name in HEADLINES.items()}
    for cells in tables(text):
        if (name := wanted.pop(cells[0], None)) is not None:
            for cell, paths in zip(cells[2:], ("paths", "paths_fast", "paths_longer", "paths_short"), strict=True):
                values = _with_interval(rows[name.format(paths)])
                assert all(shows(one, value) for one, value in zip(numbers_in(cell), values, strict=True)), f"{cells[0]}: {cell}"
    assert not wanted
    plain = " ".join(text.split())
    named = {"1-NN DTW has a macro F1 of {} and *any BBR* of {}": rivals.NEAREST, "the path itself {} and {}": rivals.NEAREST_OWN}
    named |= {"the MLP {} and {}": "MLP 2x64", "naive Bayes {} and {}": "Gaussian NB", "the SVM {} and {}": "SVM RBF"}
    for sentence, rival in named.items():
        row = rows[f"rival_{rival}_test_paths"]
        assert sentence.format(f"{row['macro_f1']:.3f}", f"{row['any_bbr']:.3f}") in plain


def test_what_the_classifiers_page_says_of_more_paths_and_of_overlay_1_is_that_of_its_bench() -> None:
    rows, text = rows_of("classifier.json"), " ".join(page_text("explanation/classifier.md").split())
    curve = [rows[f"learning_curve_{paths}_paths"]["value"] for paths in (18, 36, 55, 73)]
    assert f"18, 36, 55 and 73 training paths give {curve[0]:.3f}, {curve[1]:.3f}, {curve[2]:.3f} and {curve[3]:.3f}" in text
    own, pooled = (rows[f"rival_{name}_test_seeds"]["any_bbr_by_path"] for name in (rivals.NEAREST_OWN, rivals.NEAREST))
    assert f"is {own['overlay-1-tenth']:.3f} with the path's own training and {pooled['overlay-1-tenth']:.3f} with that of all" in text
    assert f"full rate {own['overlay-1']:.3f} and {pooled['overlay-1']:.3f}" in text


def test_the_classifiers_second_opinion_is_that_of_its_bench() -> None:
    rows = rows_of("classifier-second-opinion.json")
    wanted = {f"`{name}`": row for name, row in rows.items() if name.endswith(("_fair_queue", "_other_emulator", "_other_emulator_80"))}
    for cells in tables(page_text("explanation/classifier.md")):
        if len(cells) == 4 and (row := wanted.pop(cells[0], None)) is not None:
            assert all(shows(one, value) for one, value in zip(numbers_in(cells[2]), _with_interval(row), strict=True)), cells[0]
    assert not wanted


def test_the_jobs_share_behind_a_fair_queue_is_that_of_its_bench() -> None:
    rows = rows_of("shares-apart.json")
    wanted = {"share over the allowed half": "share_vs_allowed_apart", "Jain's index": "jain_ours_default_apart"}
    for cells in tables(page_text("explanation/stream-count.md")):
        if (name := wanted.pop(cells[0], None)) is not None:
            values = [value for each in (f"{name}_before", name) for _, [value] in sorted(rows[each]["runs"].items())]
            assert all(shows(one, value) for one, value in zip(cells[1:], values, strict=True)), f"{cells} for {values}"
    assert not wanted


def _with_interval(row: Mapping[str, Any]) -> list[float]:
    return [row["value"], *row["interval_95"]]


@pytest.mark.parametrize("file", list(GOALS))
def test_a_figure_is_called_reached_by_the_goal_of_its_bench(file: str) -> None:
    rows, goals = rows_of(file), GOALS[file]
    for name, row in rows.items():
        if name == "about":
            continue
        goal: Goal | None = goals.get(name)
        if goal is not None:
            assert row["target"] == str(goal), name
            assert row["ok"] == goal.reached(row["ratio"] if goal.of == "ratio" else row["value"]), name
    assert goals.keys() <= rows.keys()


@pytest.mark.parametrize("file", sorted(path.name for path in DATA.glob("*.json") if path.name not in {"observe.json"}))
def test_every_file_of_figures_says_where_it_comes_from(file: str) -> None:
    about = rows_of(file)["about"]
    assert about["date"].startswith("20")
    assert about["set"] in {"development", "sealed"}


def test_a_figure_that_is_not_in_the_file_is_noticed() -> None:
    assert shows("0.976", 0.9764)
    assert not shows("0.977", 0.9764)
    assert numbers_in("**0.850** ≥ 0.85, 16 Mb/s") == ["0.850", "0.85", "16"]
    rows: Rows = {"right_share": {}, "right_share_changing": {}, "wait_s_p50": {}, "wait_s_p99": {}}
    assert names_in("`right_share`, `_changing`", rows) == ["right_share", "right_share_changing"]
    assert names_in("`wait_s_p50`, `_p99`, to the wire", rows) == ["wait_s_p50", "wait_s_p99"]
