"""What an earlier transfer measured on the path a moment ago, as the one who starts the sidecar hands it on (`--known-path`)."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from fairlead_advisor.decide.background import Background
from fairlead_advisor.decide.model import PathMeasurement
from fairlead_advisor.errors import ClassifierAnswerError, UsageError

VERSION = 1
GLANCE_S = 1.0
"""Enough requests at 20 Hz to see whether it is still the same path."""

LONGEST_TEXT = 4096

_LEAST_RATIO = 0.75
_MOST_RATIO = 1.5
_NOISE_S = 0.002
"""A host's own delay may move a short RTT by so much."""


@dataclass(frozen=True, slots=True)
class KnownPath:
    """The least RTT and the background as they were; None for what was not measured.

    `beside_own`: other transfers of ours run there, whose queue a glance sees, and which a probe would take for background.
    """

    rtt_minimum_s: float | None
    background: Background | None
    beside_own: bool = False


def still_holds(known: KnownPath, path: PathMeasurement) -> bool:
    """Whether a fresh glance shows the path that was known: an answer, and a least RTT near the old one (or above it, beside our queue)."""
    if path.rtt_minimum_s is None:
        return False
    if known.rtt_minimum_s is None or abs(path.rtt_minimum_s - known.rtt_minimum_s) <= _NOISE_S:
        return True
    most_s = math.inf if known.beside_own else _MOST_RATIO * known.rtt_minimum_s
    return _LEAST_RATIO * known.rtt_minimum_s <= path.rtt_minimum_s <= most_s


def without_own_queue(known: KnownPath, path: PathMeasurement) -> PathMeasurement:
    """A glance at a path that still holds, with the known least RTT if the queue of our own transfers hides it now."""
    seen_s = path.rtt_minimum_s
    if not known.beside_own or known.rtt_minimum_s is None or seen_s is None:
        return path
    return replace(path, rtt_minimum_s=min(known.rtt_minimum_s, seen_s))


def parse_known_path(text: str) -> KnownPath:
    """Reads `{"version":1,"rtt_minimum_seconds":…,"background":{"probabilities","any_bbr","confidence","abstained","model",
    "measured_at"},"beside_own"}`, where the first two may be null and the last absent. Raises UsageError that names the field."""
    if len(text) > LONGEST_TEXT:
        raise UsageError(f"--known-path: has {len(text)} characters, at most {LONGEST_TEXT} are read")
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        raise UsageError("--known-path: is not JSON") from None
    if not isinstance(body, dict) or body.get("version") != VERSION:
        raise UsageError(f"--known-path: version must be {VERSION}")
    rtt_s, background = body.get("rtt_minimum_seconds"), body.get("background")
    if rtt_s is not None:
        rtt_s = _number(body, "rtt_minimum_seconds")
        if not 0 < rtt_s < 60:
            raise UsageError(f"--known-path: rtt_minimum_seconds is {rtt_s}, it must lie between 0 and 60")
    beside_own = body.get("beside_own", False)
    if not isinstance(beside_own, bool):
        raise UsageError("--known-path: beside_own must be true or false")
    if background is None:
        return KnownPath(rtt_s, None, beside_own)
    if not isinstance(background, dict):
        raise UsageError("--known-path: background must be an object or null")
    return KnownPath(rtt_s, _background(background), beside_own)


def _background(body: Mapping[str, object]) -> Background:
    probabilities, abstained, model = body.get("probabilities"), body.get("abstained"), body.get("model")
    if not isinstance(probabilities, dict):
        raise UsageError("--known-path: background.probabilities must be an object")
    if not isinstance(abstained, bool):
        raise UsageError("--known-path: background.abstained must be true or false")
    if not isinstance(model, str):
        raise UsageError("--known-path: background.model must be a string")
    try:
        return Background(
            {str(name): _number(probabilities, name) for name in probabilities},
            _number(body, "any_bbr"),
            _number(body, "confidence"),
            abstained,
            model,
            measured_at=_moment(body),
        )
    except ClassifierAnswerError as error:
        raise UsageError(f"--known-path: background: {error}") from None


def _moment(body: Mapping[str, object]) -> datetime:
    try:
        moment = datetime.fromisoformat(str(body.get("measured_at")))
    except ValueError:
        moment = datetime.min
    if moment.tzinfo is None:
        raise UsageError("--known-path: background.measured_at must be a time with a zone, such as 2026-01-01T00:00:00Z")
    return moment


def _number(body: Mapping[str, object], name: str) -> float:
    value = body.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(f"--known-path: {name} must be a number")
    return float(value)
