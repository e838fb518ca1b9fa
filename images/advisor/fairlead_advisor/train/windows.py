"""From runs to a table of features, one row a window."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairlead_advisor.features.series import GRID_HZ, Window, consecutive_windows
from fairlead_advisor.features.vector import NAMES, extract
from fairlead_advisor.models.answer import CLASSES
from fairlead_advisor.probe.coverage import window_is_covered
from fairlead_advisor.train.data import DatasetRun
from fairlead_advisor.train.processes import spread

_LEAST_SHARE_ON = 0.1


@dataclass(frozen=True, slots=True)
class Cutting:
    """How runs are cut: windows of `seconds`, each `hop_s` after the one before, of a trace thinned to about `rate_hz` (None: as it is)."""

    seconds: float
    hop_s: float
    rate_hz: float | None = None
    grid_hz: float = GRID_HZ


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of features (n, f) with their class numbers, run numbers, and window lengths in seconds, each of shape (n,)."""

    features: npt.NDArray[np.float32]
    truth: npt.NDArray[np.intp]
    run: npt.NDArray[np.intp]
    seconds: npt.NDArray[np.float64]

    def where(self, rows: npt.NDArray[np.bool_] | npt.NDArray[np.intp]) -> "Table":
        """The chosen rows."""
        return Table(self.features[rows], self.truth[rows], self.run[rows], self.seconds[rows])

    def __len__(self) -> int:
        return len(self.truth)


def tabulate(runs: Sequence[DatasetRun], cuttings: Sequence[Cutting], jobs: int = 1) -> Table:
    """The features of all covered windows of all runs; the order, and so the result, does not depend on `jobs`."""
    tasks = [(run, tuple(cuttings)) for run in runs]
    parts = list(spread(_of_run, tasks, jobs, chunksize=4))
    counts = [len(part) for part, _, _ in parts]
    return Table(
        features=np.concatenate([part for part, _, _ in parts] or [np.empty((0, len(NAMES)), dtype=np.float32)]),
        truth=np.concatenate([truth for _, _, truth in parts] or [np.empty(0, dtype=np.intp)]),
        run=np.repeat(np.arange(len(runs)), counts).astype(np.intp),
        seconds=np.concatenate([seconds for _, seconds, _ in parts] or [np.empty(0)]),
    )


def _of_run(task: tuple[DatasetRun, tuple[Cutting, ...]]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float64], npt.NDArray[np.intp]]:
    run, cuttings = task
    rows: list[npt.NDArray[np.float32]] = []
    seconds: list[float] = []
    truth: list[int] = []
    for cutting in cuttings:
        for window in consecutive_windows(run.trace, cutting.seconds, cutting.hop_s):
            thinned = thin(window, cutting.rate_hz)
            if window_is_covered(thinned.send_times_s.tolist(), thinned.rtts_ms.tolist()):
                rows.append(extract(thinned, cutting.grid_hz))
                seconds.append(cutting.seconds)
                start_s = float(window.send_times_s[0])
                truth.append(CLASSES.index(class_within(run, start_s, start_s + cutting.seconds)))
    stacked = np.stack(rows) if rows else np.empty((0, len(NAMES)), dtype=np.float32)
    return stacked, np.array(seconds, dtype=np.float64), np.array(truth, dtype=np.intp)


def class_within(run: DatasetRun, start_s: float, end_s: float) -> str:
    """The class of what was sent in a window: the run's, or, in a run of pausing flows, that of those on for a tenth of the window."""
    if run.about.get("kind") != "on_off":
        return run.class_name
    flows = {"bbr": 0, "cubic": 0}
    for flow in run.about["flows"]:
        on_s = sum(max(0.0, min(end_s, off) - max(start_s, on)) for on, off in flow["on_s"])
        if flow["congestion_control"] in flows and on_s >= _LEAST_SHARE_ON * (end_s - start_s):
            flows[flow["congestion_control"]] += 1
    bbr, cubic = flows["bbr"], flows["cubic"]
    if bbr and cubic:
        return "B1-C1"
    return ("B0-C0", "B1-C0", "B1-B1")[min(bbr, 2)] if not cubic else ("B0-C1", "C1-C1")[min(cubic, 2) - 1]


def thin(window: Window, rate_hz: float | None) -> Window:
    """`window` with the requests that a probe at about `rate_hz` would have sent: the one nearest to each of its times."""
    if rate_hz is None or len(window.send_times_s) <= 1.05 * rate_hz * window.seconds:
        return window
    wanted_s = window.send_times_s[0] + np.arange(round(window.seconds * rate_hz)) / rate_hz
    after = np.clip(np.searchsorted(window.send_times_s, wanted_s), 1, len(window.send_times_s) - 1)
    earlier = wanted_s - window.send_times_s[after - 1] <= window.send_times_s[after] - wanted_s
    kept = np.unique(np.where(earlier, after - 1, after))
    return Window(window.send_times_s[kept], window.rtts_ms[kept], window.seconds)
