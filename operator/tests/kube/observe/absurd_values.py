"""Messages of movers and advisors as they should be, and every one of their fields with a value that no mover means."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

MISSING = "a field that is missing"

ABSURD: dict[str, str] = {
    "NaN": "NaN",
    "Infinity": "Infinity",
    "minus Infinity": "-Infinity",
    "1e999": "1e999",
    "1.7e308": "1.7e308",
    "5e-324": "5e-324",
    "minus one": "-1",
    "minus zero": "-0.0",
    "2^63": str(2**63),
    "2^4000": str(2**4000),
    "5000 digits": "9" * 5000,
    "a long string": json.dumps("x" * 5000),
    "a string with NUL": json.dumps("a\x00b"),
    "half of a character": '"\\ud800"',
    "a number as text": '"4"',
    "true": "true",
    "null": "null",
    "an empty list": "[]",
    "a long list": json.dumps([0] * 2000),
    "an object": "{}",
    "a deep list": "[" * 500 + "]" * 500,
}
"""Values by what they are, written in JSON and its extensions."""

ENDPOINT: dict[str, Any] = {
    "role": "receiver",
    "interface": "data0",
    "address": "198.19.0.2",
    "port": 24000,
    "numa_node": 1,
    "cpus": "0-7,16-23",
}

PROGRESS: dict[str, Any] = {
    "role": "receiver",
    "job": "job-uid",
    "attempt": 1,
    "stage": "Transferring",
    "bytes_total": 10,
    "bytes_transferred": 5,
    "bytes_skipped": 0,
    "bytes_resumed": 1,
    "files_total": 2,
    "files_transferred": 1,
    "files_skipped": 0,
    "rate_bytes_per_second": 12.5,
    "seconds_since_progress": 0.5,
    "quiet_seconds": 2.5,
    "streams": 4,
    "protocol": "TCP",
    "congestion_control": "cubic",
    "bandwidth": {"asked_bps": 100, "in_force_bps": 100, "measured_bps": 90, "wire_bytes": 7},
    "interface_bytes_sent": 9,
    "interface_bytes_received": 9,
    "preflight": {
        "passed": True,
        "warnings": [{"check": "Clocks", "result": "Warning", "reason": "ClocksDiffer", "message": "20 s ahead"}],
    },
}

DECISION: dict[str, Any] = {
    "version": 1,
    "path": {"rtt_seconds": 0.06, "rtt_minimum_seconds": 0.05, "loss_ratio": 0.001, "samples": 200, "whole": True},
    "decision": {
        "protocol": "TCP",
        "congestion_control": "bbr",
        "streams": 8,
        "background": {"class": "B1-C0", "probability": 0.9, "abstained": False, "measured_at": "2026-01-01T00:00:00Z"},
        "probabilities": {"B0-C0": 0.1, "B1-C0": 0.9},
        "any_bbr": 0.95,
        "confidence": 0.9,
        "abstained": False,
        "model": "background-1.0.0 (sha256:0123456789ab)",
        "rejected": [{"congestion_control": "cubic", "utility": -0.4, "why_not": "less use"}],
        "reason": "Classified",
        "message": "one BBR flow",
        "decided_at": "2026-01-01T00:00:00Z",
    },
    "applied": True,
    "changes": [{"at": "2026-01-01T00:01:00Z", "what": "congestion_control", "from": "cubic", "to": "bbr", "why": "BBR came"}],
    "outcome": {"congestion_control": "bbr", "streams": 8, "goodput_bps": 187e6, "seconds": 61.2, "stream_coefficient": 1.2e-6},
}

VERDICT: dict[str, Any] = {
    "version": 1,
    "role": "receiver",
    "job": "job-uid",
    "attempt": 1,
    "verdict": "Succeeded",
    "reason": "Verified",
    "message": "all there",
    "retry": False,
    "bytes_total": 10,
    "bytes_transferred": 8,
    "bytes_skipped": 2,
    "bytes_resumed": 1,
    "files_total": 3,
    "files_transferred": 2,
    "files_skipped": 1,
    "seconds": 12.3,
    "bulk_seconds": 10.1,
    "checks": [{"check": "Space", "result": "Failed", "reason": "DestinationFull", "message": "too little"}],
}

_PLACEHOLDER = "@absurd@"


def absurd_bodies(message: dict[str, Any]) -> Iterator[tuple[str, str, bytes]]:
    """The message with one field changed at a time: the path of the field, what it has become, and the body."""
    for path in _fields(message):
        for what, text in ABSURD.items():
            changed = copy.deepcopy(message)
            _parent(changed, path)[path[-1]] = _PLACEHOLDER
            yield _dotted(path), what, json.dumps(changed).replace(f'"{_PLACEHOLDER}"', text).encode()
        changed = copy.deepcopy(message)
        del _parent(changed, path)[path[-1]]
        yield _dotted(path), MISSING, json.dumps(changed).encode()
        yield _dotted(path), "a field that comes twice", _doubled(message, path)


def _fields(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in items:
        yield from _fields(inner, (*path, name))


def _parent(message: Any, path: tuple[Any, ...]) -> Any:
    for name in path[:-1]:
        message = message[name]
    return message


def _doubled(message: dict[str, Any], path: tuple[Any, ...]) -> bytes:
    """The innermost object around the field with the field written once more."""
    while not isinstance(_parent(message, path), dict):
        path = path[:-1]
    changed = copy.deepcopy(message)
    name, value = path[-1], _parent(changed, path)[path[-1]]
    _parent(changed, path)[name] = _PLACEHOLDER
    twice = f"{json.dumps(value)}, {json.dumps(name)}: {json.dumps(value)}"
    return json.dumps(changed).replace(f'"{_PLACEHOLDER}"', twice).encode()


def _dotted(path: tuple[Any, ...]) -> str:
    return ".".join(map(str, path))
