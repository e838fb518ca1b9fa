"""Polls running movers and their advisors. What they answer is information for people, never a verdict, and only its form is checked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

import aiohttp

from fairlead.core.observed import MoverPod, Role, latest_attempt_of, running_movers
from fairlead.core.reports import Advice, MoverProgress, Reports
from fairlead.kube.observe.advice import DecisionAnswer, read_advice
from fairlead.kube.observe.answers import EndpointAnswer, ProgressAnswer, read_endpoint, read_progress
from fairlead.kube.observe.forms import LARGEST_BODY_BYTES, MoverMessage, ReportError, parse_message
from fairlead.kube.observe.pods import OFFSETS, PORT_ADVISOR, PORT_HTTP

TIMEOUT_SECONDS = 2.0
MOST_CONNECTIONS = 256


AnswerT = TypeVar("AnswerT", bound=MoverMessage)


class AdvisorSilences:
    """Remembers, by job, which sender was first seen to transfer without a decision, and when. Forgotten with the operator."""

    def __init__(self) -> None:
        self._since: dict[str, tuple[str, float]] = {}

    def note(self, job_uid: str, sender: MoverPod | None, progress: MoverProgress | None, *, decided: bool) -> float:
        """Takes in one poll of a running sender (None if there is none) and returns the seconds so far.

        `progress` is the mover's answer, `decided` whether the advisor answered. Without the sender's own answer nothing is proven.
        """
        if sender is None or decided or (progress is not None and not progress.flows):
            self._since.pop(job_uid, None)
            return 0.0
        if progress is None:
            return 0.0
        known = self._since.get(job_uid)
        if known is None or known[0] != sender.uid:
            known = self._since[job_uid] = sender.uid, progress.read_at
        return max(0.0, progress.read_at - known[1])


class ReportReader:
    """Polls the pods of one job at a time over one bounded connection pool.

    Only the address that the API server shows for a pod of ours is dialled, only ports from `ports`, and no redirect is followed.
    `wall` is Unix time; `on_failure` gets the path of every poll that got no usable answer.
    """

    def __init__(
        self,
        ports: range,
        *,
        wall: Callable[[], float],
        timeout_seconds: float = TIMEOUT_SECONDS,
        on_failure: Callable[[str], None] = lambda path: None,
    ) -> None:
        self._ports = ports
        self._wall = wall
        self._timeout = aiohttp.ClientTimeout(total=timeout_seconds)
        self._on_failure = on_failure
        self._session: aiohttp.ClientSession | None = None
        self._silences = AdvisorSilences()

    async def close(self) -> None:
        """Closes the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def read(self, job_uid: str, pods: Sequence[MoverPod]) -> Reports:
        """Everything that the newest attempt's running pods report, asked at once; None wherever nobody gave a proper answer."""
        receiver, sender = running_movers(pods)
        newest = latest_attempt_of(pod for pod in (receiver, sender) if pod is not None)
        receiver_endpoint, sender_endpoint, receiver_progress, sender_progress, decision = await asyncio.gather(
            self._ask(receiver, PORT_HTTP, "/v1/endpoint", EndpointAnswer),
            self._ask(sender, PORT_HTTP, "/v1/endpoint", EndpointAnswer),
            self._ask_progress(receiver),
            self._ask_progress(sender),
            self._ask(sender, PORT_ADVISOR, "/v1/decision", DecisionAnswer),
        )
        advice = read_advice(decision) if decision else _left_behind(pods)
        sender_report = read_progress(*sender_progress, job_uid, newest, Role.SENDER)
        return Reports(
            receiver_endpoint=read_endpoint(receiver_endpoint, Role.RECEIVER),
            sender_endpoint=read_endpoint(sender_endpoint, Role.SENDER),
            receiver=read_progress(*receiver_progress, job_uid, newest, Role.RECEIVER),
            sender=sender_report,
            path=advice.path if advice else None,
            decision=advice.decision if advice else None,
            outcome=advice.outcome if advice else None,
            advisor_silent_seconds=self._silences.note(job_uid, sender, sender_report, decided=decision is not None),
        )

    async def _ask_progress(self, pod: MoverPod | None) -> tuple[ProgressAnswer | None, float]:
        """The answer and when it came: its counters make rates, so the time that other answers take must not count."""
        answer = await self._ask(pod, PORT_HTTP, "/v1/progress", ProgressAnswer)
        return answer, self._wall()

    async def _ask(self, pod: MoverPod | None, port_name: str, path: str, form: type[AnswerT]) -> AnswerT | None:
        if pod is None or pod.address is None or pod.port_base is None:
            return None
        port = pod.port_base + OFFSETS[port_name]
        if port not in self._ports:
            return None
        host = f"[{pod.address}]" if ":" in pod.address else pod.address
        try:
            body = await self._fetch(f"http://{host}:{port}{path}")
            return parse_message(form, body) if body is not None else None
        except (TimeoutError, aiohttp.ClientError, OSError, ReportError):
            self._on_failure(path)
            return None

    async def _fetch(self, url: str) -> bytes | None:
        """The body, None if the mover has no answer yet (503)."""
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=MOST_CONNECTIONS, limit_per_host=16)
            self._session = aiohttp.ClientSession(connector=connector, timeout=self._timeout, cookie_jar=aiohttp.DummyCookieJar())
        async with self._session.get(url, allow_redirects=False, headers={"Accept": "application/json"}) as response:
            if response.status == 503:
                return None
            body = bytearray()
            async for chunk in response.content.iter_chunked(8192):
                body += chunk
                if len(body) > LARGEST_BODY_BYTES:
                    raise aiohttp.ClientPayloadError(f"more than {LARGEST_BODY_BYTES} bytes")
            if response.status != 200:
                raise aiohttp.ClientPayloadError(f"status {response.status}")
            return bytes(body)


def _left_behind(pods: Sequence[MoverPod]) -> Advice | None:
    """What the latest sender's sidecar left when it ended."""
    latest = latest_attempt_of(pods)
    return next((pod.advice for pod in pods if pod.role is Role.SENDER and pod.attempt == latest), None)
