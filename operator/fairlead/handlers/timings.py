"""Pauses and bounds of the process that no administrator sets, in one object, so that a test can give shorter ones."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timings:
    """How long the operator waits for the API server, and when it tries again."""

    request_seconds: float = 30.0
    """How long one request may take."""
    late_request_seconds: float = 60.0
    """How long after a change of the leader a request of the one before may still be carried out."""
    watch_request_seconds: float = 60.0
    """How long kopf's lists may take, and the first answer to its watches."""
    watch_seconds: int = 300
    """How long one watch lasts before it begins anew: one that went silent is noticed then."""
    watch_grace_seconds: float = 10.0
    """How much longer a watch is waited for whose server does not end it."""
    watch_retry_seconds: float = 5.0
    """Pause before a watch that failed begins anew."""
    watch_backoffs_seconds: tuple[float, ...] = (1.0, 1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 21.0, 30.0)
    """Pauses between the tries of one request of a watch; the last one again and again."""
    login_pause_seconds: float = 5.0
    """Pause before credentials that were refused are tried again."""
    first_list_patience_seconds: float = 60.0
    """How long a start waits for the first complete lists."""
    first_list_retry_seconds: float = 2.0
    sweep_retry_seconds: float = 10.0
    """Pause after a list that failed."""
    after_gap_seconds: float = 2.0
    """How long after a watch began anew everything is listed: others begin anew at about the same time."""
    paths_list_seconds: float = 60.0
    """How often the paths are listed. They are not watched: a cluster without this kind, or a role without rights to it, must not stop
    kopf."""
