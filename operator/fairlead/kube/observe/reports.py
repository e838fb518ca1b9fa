"""Polls running movers and their advisors. What they answer is information for people, never a verdict, and only its form is checked."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Callable, Sequence
from typing import Annotated, Literal, TypeVar

import aiohttp
from pydantic import Field, ValidationError, field_validator

from fairlead.core.observed import MoverPod, PodPhase, Role, latest_attempt_of
from fairlead.core.reports import Advice, MoverEndpoint, MoverProgress, Reports
from fairlead.kube.observe.advice import DecisionAnswer, read_advice
from fairlead.kube.observe.forms import Control, Count, Finite, MoverAnswer
from fairlead.kube.observe.pods import OFFSETS, PORT_ADVISOR, PORT_HTTP

TIMEOUT_SECONDS = 2.0
LARGEST_BODY_BYTES = 64 * 1024
MOST_CONNECTIONS = 256


class _EndpointAnswer(MoverAnswer):
    role: Literal["sender", "receiver"]
    interface: Annotated[str, Field(pattern=r"^[^\s/]{1,15}$")]
    address: Annotated[str, Field(max_length=45)]
    port: Annotated[int, Field(ge=0, le=65535)] = 0
    numa_node: Annotated[int, Field(ge=0, le=1023)] | None = None

    @field_validator("address")
    @classmethod
    def _is_address(cls, value: str) -> str:
        address = ipaddress.ip_address(value)
        if address.is_unspecified or address.is_multicast:
            raise ValueError("not the address of a host")
        return str(address)


class _BandwidthAnswer(MoverAnswer):
    wire_bytes: Count


class _ProgressAnswer(MoverAnswer):
    role: Literal["sender", "receiver"]
    job: Annotated[str, Field(max_length=64)]
    attempt: int
    stage: Literal["Waiting", "Listing", "AwaitingTransport", "Transferring", "Verifying", "Publishing", "Done"]
    bytes_total: Count | None = None
    bytes_transferred: Count
    bytes_skipped: Count = 0
    files_total: Count | None = None
    files_transferred: Count
    files_skipped: Count = 0
    rate_bytes_per_second: Finite
    quiet_seconds: Finite = 0.0
    streams: Annotated[int, Field(ge=0, le=65535)] | None = None
    congestion_control: Control | None = None
    bytes_resumed: Count = 0
    bandwidth: _BandwidthAnswer | None = None
    interface_bytes_sent: Count | None = None
    interface_bytes_received: Count | None = None


AnswerT = TypeVar("AnswerT", bound=MoverAnswer)


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
        running = [pod for pod in pods if pod.phase is PodPhase.RUNNING and not pod.deleting and pod.address and pod.port_base]
        newest = latest_attempt_of(running)
        receiver = next((pod for pod in running if pod.role is Role.RECEIVER and pod.attempt == newest), None)
        sender = next((pod for pod in running if pod.role is Role.SENDER and pod.attempt == newest), None)
        receiver_endpoint, sender_endpoint, receiver_progress, sender_progress, decision = await asyncio.gather(
            self._ask(receiver, PORT_HTTP, "/v1/endpoint", _EndpointAnswer),
            self._ask(sender, PORT_HTTP, "/v1/endpoint", _EndpointAnswer),
            self._ask_progress(receiver),
            self._ask_progress(sender),
            self._ask(sender, PORT_ADVISOR, "/v1/decision", DecisionAnswer),
        )
        advice = read_advice(decision) if decision else _left_behind(pods)
        sender_report = _progress(*sender_progress, job_uid, newest, Role.SENDER)
        return Reports(
            receiver_endpoint=_endpoint(receiver_endpoint, Role.RECEIVER),
            sender_endpoint=_endpoint(sender_endpoint, Role.SENDER),
            receiver=_progress(*receiver_progress, job_uid, newest, Role.RECEIVER),
            sender=sender_report,
            path=advice.path if advice else None,
            decision=advice.decision if advice else None,
            outcome=advice.outcome if advice else None,
            advisor_silent_seconds=self._silences.note(job_uid, sender, sender_report, decided=decision is not None),
        )

    async def _ask_progress(self, pod: MoverPod | None) -> tuple[_ProgressAnswer | None, float]:
        """The answer and when it came: its counters make rates, so the time that other answers take must not count."""
        answer = await self._ask(pod, PORT_HTTP, "/v1/progress", _ProgressAnswer)
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
            return form.model_validate_json(body) if body is not None else None
        except (TimeoutError, aiohttp.ClientError, OSError, ValidationError):
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


def _endpoint(answer: _EndpointAnswer | None, role: Role) -> MoverEndpoint | None:
    if answer is None or answer.role != role.value:
        return None
    return MoverEndpoint(interface=answer.interface, address=answer.address, port=answer.port, numa_node=answer.numa_node)


def _progress(answer: _ProgressAnswer | None, read_at: float, job_uid: str, attempt: int, role: Role) -> MoverProgress | None:
    if answer is None or (answer.job, answer.attempt, answer.role) != (job_uid, attempt, role.value):
        return None
    return MoverProgress(
        stage=answer.stage,
        bytes_total=answer.bytes_total,
        bytes_transferred=answer.bytes_transferred,
        bytes_skipped=answer.bytes_skipped,
        files_total=answer.files_total,
        files_transferred=answer.files_transferred,
        files_skipped=answer.files_skipped,
        rate_bytes_per_second=answer.rate_bytes_per_second,
        quiet_seconds=answer.quiet_seconds,
        streams=answer.streams or 0,
        congestion_control=answer.congestion_control or "",
        bytes_resumed=answer.bytes_resumed,
        wire_bytes=None if answer.bandwidth is None else answer.bandwidth.wire_bytes,
        interface_bytes_sent=answer.interface_bytes_sent,
        interface_bytes_received=answer.interface_bytes_received,
        read_at=read_at,
    )
