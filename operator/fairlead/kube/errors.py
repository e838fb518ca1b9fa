"""What the API server refused, as types by which a worker knows who can mend it and when to try again."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from fairlead.api.shared.errors import ReconcileError

LONGEST_MESSAGE = 512
DEFAULT_PATIENCE_SECONDS = 5.0
"""How long a request rests when the API server asks for patience and names no time."""
RENEWAL_PATIENCE_SECONDS = 2.0
"""How long a write rests that was refused because the Lease is not renewed."""


class KubeError(ReconcileError):
    """A request that the API server did not carry out. Another pass reads everything anew, so it may succeed."""

    kind = "Unknown"
    blame = "cluster"

    def __init__(self, message: str, *, status: int = 0, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after_seconds = retry_after_seconds


class NotFoundError(KubeError):
    """The object, its namespace or its resource type is not there."""

    kind = "NotFound"


class ConflictError(KubeError):
    """A precondition (UID or resourceVersion) failed: we read an old version."""

    kind = "Conflict"
    blame = "nobody"


class AlreadyExistsError(KubeError):
    """An object of that name exists; whether it is ours is for the caller to find out."""

    kind = "AlreadyExists"


class RefusedError(KubeError):
    """An object of ours may not be created: a quota, an admission policy, a missing right, or an object of the same name."""

    kind = "Refused"
    blame = "administrator"


class ThrottledError(KubeError):
    """The API server asks for patience; `retry_after_seconds` is how much."""

    kind = "Throttled"
    blame = "nobody"

    @property
    def delay_seconds(self) -> float:
        return self.retry_after_seconds or DEFAULT_PATIENCE_SECONDS


class NotLeadingError(KubeError):
    """Another operator leads, or may by now: this one must not write. It ends soon, or goes on once its Lease is renewed."""

    kind = "NotLeading"
    blame = "nobody"

    @property
    def delay_seconds(self) -> float:
        return RENEWAL_PATIENCE_SECONDS


class UnavailableError(KubeError):
    """The API server could not be reached, did not answer in time, or failed itself."""

    kind = "Unavailable"


class NamespaceTerminatingError(KubeError):
    """Nothing can be created in this namespace any more because it is being deleted."""

    kind = "NamespaceTerminating"


class ForbiddenError(KubeError):
    """The operator lacks a right, or an admission policy or quota refuses the object."""

    kind = "Forbidden"
    blame = "administrator"

    @property
    def lacks_right(self) -> bool:
        """Whether whoever asks lacks the verb itself; an admission policy or a quota refuses one object, in words of its own."""
        return re.search(r" cannot [a-z]+ resource ", str(self)) is not None


class UnauthorizedError(KubeError):
    """The API server does not know who asks, as while it starts or a token is replaced: that may pass."""

    kind = "Unauthorized"


class InvalidError(KubeError):
    """The API server finds our request malformed: a defect of ours or a schema of another version."""

    kind = "Invalid"
    blame = "operator"


def error_from_response(status: int, body: bytes, headers: Mapping[str, str], request: str) -> KubeError:
    """The error for an answer of 300 or above; `request` is its method and path, for the message."""
    answer = _parse_status(body)
    reason = str(answer.get("reason") or "")
    details = answer.get("details") if isinstance(answer.get("details"), dict) else {}
    message = f"{request}: {status} {reason}: {str(answer.get('message') or '').strip()}"[:LONGEST_MESSAGE]
    retry_after = _seconds(headers.get("Retry-After") or (details or {}).get("retryAfterSeconds"))
    return _error_class(status, reason, details or {})(message, status=status, retry_after_seconds=retry_after)


def _error_class(status: int, reason: str, details: Mapping[str, Any]) -> type[KubeError]:
    causes = details.get("causes")
    cause_reasons = {cause.get("reason") for cause in causes if isinstance(cause, dict)} if isinstance(causes, list) else set()
    if status == 403:
        return NamespaceTerminatingError if "NamespaceTerminating" in cause_reasons else ForbiddenError
    if status == 409:
        return AlreadyExistsError if reason == "AlreadyExists" else ConflictError
    by_status: dict[int, type[KubeError]] = {
        400: InvalidError,
        401: UnauthorizedError,
        404: NotFoundError,
        410: ConflictError,
        413: InvalidError,
        415: InvalidError,
        422: InvalidError,
        429: ThrottledError,
    }
    return by_status.get(status, UnavailableError if status >= 500 else KubeError)


def _parse_status(body: bytes) -> Mapping[str, Any]:
    try:
        answer = json.loads(body)
    except ValueError:
        return {"message": body[:LONGEST_MESSAGE].decode(errors="replace")}
    return answer if isinstance(answer, dict) else {}


def _seconds(value: object) -> float | None:
    try:
        seconds = float(str(value))
    except ValueError:
        return None
    return seconds if 0 <= seconds < 3600 else None
