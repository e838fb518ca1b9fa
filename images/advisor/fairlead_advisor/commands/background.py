"""`classify` and `evaluate`: the classifications of traces by an installed or a named model."""

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any

from fairlead_advisor.errors import DataError, NoModelError, TraceError, UsageError
from fairlead_advisor.probe.coverage import MINIMUM_WINDOW_S

_LONGEST_WINDOW_S = 3600.0


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds both commands."""
    classifying = commands.add_parser("classify", help="tell the background traffic from a trace file", allow_abbrev=False)
    classifying.add_argument("trace", type=Path, metavar="TRACE.csv")
    _add_window(classifying, "how much of the trace's end is used (10)")
    classifying.set_defaults(command=_classify)

    evaluating = commands.add_parser("evaluate", help="compare a model with labelled traces", allow_abbrev=False)
    evaluating.add_argument("folder", type=Path, metavar="DIR", help="traces and records named <path>__<class>__<seed>.csv, .jsonl")
    _add_window(evaluating, "length of the windows that the traces are cut into (10)")
    evaluating.set_defaults(command=_evaluate)


def _add_window(parser: argparse.ArgumentParser, text: str) -> None:
    parser.add_argument("--window", type=float, default=10.0, metavar="SECONDS", help=text)
    parser.add_argument("--model", type=Path, metavar="FILE", help="an ONNX file with its .sha256 beside it (default: the installed model)")


def _checked_window(options: argparse.Namespace) -> float:
    if not (math.isfinite(options.window) and MINIMUM_WINDOW_S <= options.window <= _LONGEST_WINDOW_S):
        raise UsageError(f"--window must be {MINIMUM_WINDOW_S:g} to {_LONGEST_WINDOW_S:g} seconds, got {options.window:g}")
    return float(options.window)


def _classify(options: argparse.Namespace) -> None:
    from fairlead_advisor.features.series import last_window  # noqa: PLC0415 - each command loads only what it uses
    from fairlead_advisor.models.classifier import WindowClassifier  # noqa: PLC0415
    from fairlead_advisor.models.store import find_model  # noqa: PLC0415
    from fairlead_advisor.probe.coverage import require_coverage  # noqa: PLC0415
    from fairlead_advisor.probe.trace import read_trace  # noqa: PLC0415

    window_s = _checked_window(options)
    trace = read_trace(options.trace)
    require_coverage(options.trace, trace, window_s)
    try:
        model = find_model(options.model)
    except NoModelError as error:
        raise NoModelError(f"{options.trace}: a valid trace of {len(trace)} samples, but {error}") from None
    window = last_window(trace, window_s)
    try:
        [answer] = WindowClassifier(model).classify([window])
    except TraceError as error:
        raise TraceError(f"{options.trace}: {error}: check the path and its echo service, and probe again") from None
    _print(
        {
            "version": 1,
            "class": answer.class_name,
            "probabilities": answer.probabilities,
            "any_bbr": answer.any_bbr,
            "confidence": answer.confidence,
            "abstained": answer.abstention is not None,
            "reason": answer.abstention,
            "shares_queue": answer.shares_queue,
            "novelty": answer.novelty,
            "window_s": window_s,
            "samples": len(window.rtts_ms),
            "model": model.label,
        }
    )


def _evaluate(options: argparse.Namespace) -> int:
    from fairlead_advisor.assess.evaluate import evaluate  # noqa: PLC0415
    from fairlead_advisor.assess.folder import trace_files  # noqa: PLC0415
    from fairlead_advisor.models.classifier import WindowClassifier  # noqa: PLC0415
    from fairlead_advisor.models.store import find_model  # noqa: PLC0415

    window_s = _checked_window(options)
    files = trace_files(options.folder)
    report = evaluate(WindowClassifier(find_model(options.model)), files, window_s)
    _print(report)
    if not (rejected := report["files_rejected"]):
        return 0
    # The figures are of the others. A script that reads nothing but the exit code must not take them for figures of the folder.
    for complaint in rejected:
        sys.stderr.write(f"fairlead-advisor: {complaint}\n")
    sys.stderr.write(f"fairlead-advisor: {len(rejected)} of {len(files)} files are not in the figures: mend them, or leave them out\n")
    return DataError.exit_code


def _print(report: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(report) + "\n")
