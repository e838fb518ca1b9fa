"""A classifier against labelled traces."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from fairlead_advisor.assess.folder import LabelledFile, labelled
from fairlead_advisor.assess.metrics import Scores, report, scores_of_answers
from fairlead_advisor.errors import DataError, RecordError, TraceError
from fairlead_advisor.features.series import Window, consecutive_windows
from fairlead_advisor.models.answer import CLASSES, WindowAnswer
from fairlead_advisor.models.classifier import WindowClassifier
from fairlead_advisor.probe.coverage import require_coverage, window_is_covered

VERSION = 1


def evaluate(classifier: WindowClassifier, files: Iterable[Path], window_s: float) -> dict[str, Any]:
    """The figures over all whole windows of `window_s` seconds that do not overlap, in all and by path.

    Windows with a gap or too few answers are counted as `windows_rejected`; a file whose name is no label, that is no trace, or that is
    shorter than a window is named in `files_rejected` with the reason, and the others count. One file is in memory at a time. Raises
    DataError if no window is left. Shorter surveys of a record are left out.
    """
    answers: list[WindowAnswer] = []
    truth: list[int] = []
    paths: list[str] = []
    files_rejected: list[str] = []
    rejected = read = 0
    for file in files:
        try:
            found = labelled(file)
            windows, bad = _windows(found, window_s)
        except (TraceError, RecordError, DataError) as error:
            files_rejected.append(str(error))
            continue
        read += 1
        rejected += bad
        answers += classifier.classify(windows)
        truth += [CLASSES.index(found.class_name)] * len(windows)
        paths += [found.path] * len(windows)
    if not answers and not read and files_rejected:
        raise DataError(f"none of {len(files_rejected)} file(s) can be used; the first: {files_rejected[0]}")
    if not answers:
        raise DataError(f"no usable window of {window_s:g} s in {read} file(s), {rejected} rejected: check that the echo service answered")
    scores = scores_of_answers(answers, np.array(truth, dtype=np.intp))
    used = {"version": VERSION, "files": read, "files_rejected": files_rejected}
    counted = used | {"windows": len(answers), "windows_rejected": rejected, "window_s": window_s}
    return counted | report(scores) | {"per_path": _by_path(scores, np.array(paths)), "model": classifier.model.label}


def _windows(found: LabelledFile, window_s: float) -> tuple[list[Window], int]:
    traces = found.traces()
    windows = [window for trace in traces for window in consecutive_windows(trace, window_s)]
    if not windows and not found.is_record:
        require_coverage(found.file, traces[-1], window_s)
    covered = [window for window in windows if window_is_covered(window.send_times_s.tolist(), window.rtts_ms.tolist())]
    return covered, len(windows) - len(covered)


def _by_path(scores: Scores, paths: "np.ndarray[tuple[int], np.dtype[np.str_]]") -> dict[str, object]:
    by_path: dict[str, object] = {}
    for path in sorted(set(paths.tolist())):
        here = paths == path
        full = report(Scores(scores.probabilities[here], scores.truth[here], scores.relied_on[here]))
        by_path[path] = {"windows": int(here.sum())} | {
            name: full[name] for name in ("accuracy", "macro_f1", "any_bbr_accuracy", "coverage")
        }
    return by_path
