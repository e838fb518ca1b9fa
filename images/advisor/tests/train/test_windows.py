import numpy as np
import pytest

from fairlead_advisor.features.series import Window
from fairlead_advisor.features.vector import NAMES
from fairlead_advisor.models.answer import CLASSES
from fairlead_advisor.train.data import DatasetRun
from fairlead_advisor.train.windows import Cutting, class_within, tabulate, thin
from tests.support.background import caricature
from tests.support.traces import steady, trace_of

RUNS = [DatasetRun(f"r{number}", "p", name, "1", "train", caricature(name)) for number, name in enumerate(CLASSES)]


def test_rows_tell_their_class_run_and_length() -> None:
    table = tabulate(RUNS, (Cutting(10, 5), Cutting(20, 20)))
    assert table.features.shape == (len(RUNS) * 4, len(NAMES))
    assert table.truth.tolist() == table.run.tolist() == [number for number in range(6) for _ in range(4)]
    assert table.seconds.tolist() == [10, 10, 10, 20] * 6


def test_the_table_does_not_depend_on_the_number_of_processes() -> None:
    one, two = (tabulate(RUNS, (Cutting(10, 10),), jobs) for jobs in (1, 2))
    np.testing.assert_array_equal(one.features, two.features)
    np.testing.assert_array_equal(one.truth, two.truth)


def test_windows_with_a_gap_or_without_answers_are_left_out() -> None:
    gap = trace_of((index * 0.05 + (2 if index >= 100 else 0), 40.0) for index in range(400))
    silent = trace_of((index * 0.05, 40.0 if index > 250 else None) for index in range(400))
    runs = [
        DatasetRun(name, "p", "B0-C0", "1", "train", trace) for name, trace in (("gap", gap), ("silent", silent), ("good", steady(400)))
    ]
    assert tabulate(runs, (Cutting(10, 10),)).run.tolist() == [0, 1, 2, 2]
    assert len(tabulate([], (Cutting(10, 10),))) == 0


@pytest.mark.parametrize(("rate_hz", "kept"), [(None, 500), (50.0, 500), (20.0, 200), (10.0, 100), (33.0, 330)])
def test_a_thinned_window_is_what_a_slower_probe_would_have_sent(rate_hz: float | None, kept: int) -> None:
    times_s = np.arange(500) / 50
    found = thin(Window(times_s, times_s, 10.0), rate_hz)
    assert len(found.rtts_ms) == kept
    assert np.isin(found.send_times_s, times_s).all()
    assert np.diff(found.send_times_s).max() <= 1.5 / (rate_hz or 50) + 0.02


FLOWS = [
    {"congestion_control": "cubic", "on_s": [[-5.0, 10.0], [20.0, 30.0]]},
    {"congestion_control": "bbr", "on_s": [[10.0, 20.0]]},
    {"congestion_control": None, "on_s": [[0.0, 40.0]]},
]


@pytest.mark.parametrize(
    ("kind", "start_s", "class_name"),
    [
        ("steady", 0, "B1-C1"),
        ("on_off", 0, "B0-C1"),
        ("on_off", 0.5, "B0-C1"),
        ("on_off", 5, "B1-C1"),
        ("on_off", 10, "B1-C0"),
        ("on_off", 30, "B0-C0"),
    ],
)
def test_a_window_of_pausing_flows_is_of_the_class_that_was_sent_in_it(kind: str, start_s: float, class_name: str) -> None:
    run = DatasetRun("r", "p", "B1-C1", "1", "test_kinds", steady(2), {"kind": kind, "flows": FLOWS})
    assert class_within(run, start_s, start_s + 10) == class_name
    for cc, pair in (("bbr", "B1-B1"), ("cubic", "C1-C1")):
        both = DatasetRun(
            "r",
            "p",
            "B1-C1",
            "1",
            "test_kinds",
            steady(2),
            {"kind": "on_off", "flows": 2 * [{"congestion_control": cc, "on_s": [[0, 40]]}]},
        )
        assert class_within(both, 0, 10) == pair
