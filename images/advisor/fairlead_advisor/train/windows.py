"""From runs to a table of features, one row a window."""

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fairlead_advisor.features.series import GRID_HZ, Window, consecutive_windows
from fairlead_advisor.features.vector import NAMES, extract
from fairlead_advisor.models.classes import CLASSES
from fairlead_advisor.probe.coverage import window_is_covered
from fairlead_advisor.train.data import Run


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


def tabulate(runs: Sequence[Run], cuttings: Sequence[Cutting], jobs: int = 1) -> Table:
    """The features of all covered windows of all runs; the order, and so the result, does not depend on `jobs`."""
    tasks = [(run, tuple(cuttings)) for run in runs]
    if jobs > 1:
        with ProcessPoolExecutor(jobs) as pool:
            parts = list(pool.map(_of_run, tasks, chunksize=4))
    else:
        parts = [_of_run(task) for task in tasks]
    counts = [len(part) for part, _ in parts]
    return Table(
        features=np.concatenate([part for part, _ in parts] or [np.empty((0, len(NAMES)), dtype=np.float32)]),
        truth=np.repeat([CLASSES.index(run.class_name) for run in runs], counts).astype(np.intp),
        run=np.repeat(np.arange(len(runs)), counts).astype(np.intp),
        seconds=np.concatenate([seconds for _, seconds in parts] or [np.empty(0)]),
    )


def _of_run(task: tuple[Run, tuple[Cutting, ...]]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float64]]:
    run, cuttings = task
    rows: list[npt.NDArray[np.float32]] = []
    seconds: list[float] = []
    for cutting in cuttings:
        for window in consecutive_windows(run.trace, cutting.seconds, cutting.hop_s):
            thinned = thin(window, cutting.rate_hz)
            if window_is_covered(thinned.send_times_s.tolist(), thinned.rtts_ms.tolist()):
                rows.append(extract(thinned, cutting.grid_hz))
                seconds.append(cutting.seconds)
    stacked = np.stack(rows) if rows else np.empty((0, len(NAMES)), dtype=np.float32)
    return stacked, np.array(seconds, dtype=np.float64)


def thin(window: Window, rate_hz: float | None) -> Window:
    """`window` with the requests that a probe at about `rate_hz` would have sent: the one nearest to each of its times."""
    if rate_hz is None or len(window.send_times_s) <= 1.05 * rate_hz * window.seconds:
        return window
    wanted_s = window.send_times_s[0] + np.arange(round(window.seconds * rate_hz)) / rate_hz
    after = np.clip(np.searchsorted(window.send_times_s, wanted_s), 1, len(window.send_times_s) - 1)
    earlier = wanted_s - window.send_times_s[after - 1] <= window.send_times_s[after] - wanted_s
    kept = np.unique(np.where(earlier, after - 1, after))
    return Window(window.send_times_s[kept], window.rtts_ms[kept], window.seconds)
