from __future__ import annotations

import json
from typing import Any

import pytest

from fairlead.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    KubeError,
    NamespaceTerminatingError,
    NotFoundError,
    ThrottledError,
    UnauthorizedError,
    UnavailableError,
    error_from_response,
)

TERMINATING = {"reason": "Forbidden", "details": {"causes": [{"reason": "NamespaceTerminating"}]}}


def _error(status: int, body: dict[str, Any], headers: dict[str, str] | None = None) -> KubeError:
    return error_from_response(status, json.dumps(body).encode(), headers or {}, "GET /x")


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (404, {"reason": "NotFound"}, NotFoundError),
        (409, {"reason": "AlreadyExists"}, AlreadyExistsError),
        (409, {"reason": "Conflict"}, ConflictError),
        (410, {"reason": "Gone"}, ConflictError),
        (403, {"reason": "Forbidden"}, ForbiddenError),
        (403, TERMINATING, NamespaceTerminatingError),
        (401, {"reason": "Unauthorized"}, UnauthorizedError),
        (400, {"reason": "BadRequest"}, InvalidError),
        (422, {"reason": "Invalid"}, InvalidError),
        (429, {"reason": "TooManyRequests"}, ThrottledError),
        (500, {"reason": "InternalError"}, UnavailableError),
        (503, {}, UnavailableError),
        (418, {}, KubeError),
    ],
)
def test_every_answer_has_its_kind(status: int, body: dict[str, Any], kind: type[KubeError]) -> None:
    assert type(_error(status, body)) is kind


@pytest.mark.parametrize(
    ("headers", "body", "seconds"),
    [
        ({"Retry-After": "7"}, {}, 7.0),
        ({}, {"details": {"retryAfterSeconds": 3}}, 3.0),
        ({"Retry-After": "soon"}, {}, None),
        ({"Retry-After": "-1"}, {}, None),
        ({}, {}, None),
    ],
)
def test_knows_how_long_to_wait(headers: dict[str, str], body: dict[str, Any], seconds: float | None) -> None:
    assert _error(429, body, headers).retry_after_seconds == seconds


def test_says_what_was_asked_and_what_was_answered() -> None:
    assert str(_error(404, {"reason": "NotFound", "message": "no such pod"})) == "GET /x: 404 NotFound: no such pod"


@pytest.mark.parametrize("body", [b"", b"<html>", b"\xff\xfe", b"[]", b'{"details": 3}', b'{"details": {"causes": 1}}'])
def test_an_answer_that_is_no_status_is_still_an_error(body: bytes) -> None:
    assert isinstance(error_from_response(502, body, {}, "GET /x"), UnavailableError)


def test_messages_are_bounded() -> None:
    assert len(str(_error(500, {"message": "x" * 10_000}))) <= 512
