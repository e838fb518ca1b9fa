"""Reads what movers answer over HTTP (docs/contracts.md, "Mover HTTP"). Whatever does not have the form is refused as a whole."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Literal

from pydantic import Field, field_validator

from fairlead.api.transferjob.spec import MOST_INTERFACES
from fairlead.api.transferjob.status import ProtocolInForce
from fairlead.core.observed import Role
from fairlead.core.reports import EndpointPlace, InterfaceTraffic, MoverEndpoint, MoverProgress, PathState
from fairlead.kube.observe.forms import (
    Attempt,
    BytesPerSecond,
    Checks,
    Control,
    Count,
    CpuList,
    FileCount,
    Interface,
    JobUid,
    MoverMessage,
    Seconds,
    StreamCount,
    read_checks,
)


class PlaceAnswer(MoverMessage):
    """A mover's end of a path, as it says. Whether the address and the port may be used is decided in `core.endpoints`."""

    interface: Interface
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


class EndpointAnswer(PlaceAnswer):
    """The answer to `GET /v1/endpoint`."""

    role: Literal["sender", "receiver"]
    cpus: CpuList | None = None
    endpoints: Annotated[tuple[PlaceAnswer, ...], Field(max_length=MOST_INTERFACES)] = ()


class _BandwidthAnswer(MoverMessage):
    wire_bytes: Count


class _PreflightAnswer(MoverMessage):
    passed: bool
    warnings: Checks = ()


class _InterfaceAnswer(MoverMessage):
    interface: Interface
    up: bool | None = None
    bytes_sent: Count | None = None
    bytes_received: Count | None = None
    wire_bytes: Count | None = None


class ProgressAnswer(MoverMessage):
    """The answer to `GET /v1/progress`."""

    role: Literal["sender", "receiver"]
    job: JobUid
    attempt: Attempt
    stage: Literal["Waiting", "Listing", "AwaitingTransport", "Transferring", "Verifying", "Publishing", "Done"]
    bytes_total: Count | None = None
    bytes_transferred: Count
    bytes_skipped: Count = 0
    files_total: FileCount | None = None
    files_transferred: FileCount
    files_skipped: FileCount = 0
    rate_bytes_per_second: BytesPerSecond
    seconds_since_progress: Seconds | None = None
    quiet_seconds: Seconds = 0.0
    streams: StreamCount | None = None
    protocol: ProtocolInForce | None = None
    congestion_control: Control | None = None
    bytes_resumed: Count = 0
    blocks_damaged: Count = 0
    bandwidth: _BandwidthAnswer | None = None
    interface_bytes_sent: Count | None = None
    interface_bytes_received: Count | None = None
    interfaces: Annotated[tuple[_InterfaceAnswer, ...], Field(max_length=MOST_INTERFACES)] = ()
    preflight: _PreflightAnswer | None = None


def read_endpoint(answer: EndpointAnswer | None, role: Role) -> MoverEndpoint | None:
    """The endpoint; None without an answer, and if it is another role's."""
    if answer is None or answer.role != role.value:
        return None
    places = tuple(EndpointPlace(place.interface, place.address, place.port, place.numa_node) for place in answer.endpoints)
    several = places if len(places) > 1 else ()
    return MoverEndpoint(answer.interface, answer.address, answer.port, answer.numa_node, several, answer.cpus)


def read_progress(answer: ProgressAnswer | None, read_at: float, job_uid: str, attempt: int, role: Role) -> MoverProgress | None:
    """The progress as read at `read_at` in Unix time; None without an answer, and if it is another job's, attempt's or role's."""
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
        seconds_since_progress=answer.seconds_since_progress,
        quiet_seconds=answer.quiet_seconds,
        streams=answer.streams or 0,
        protocol=answer.protocol,
        congestion_control=answer.congestion_control or "",
        bytes_resumed=answer.bytes_resumed,
        wire_bytes=None if answer.bandwidth is None else answer.bandwidth.wire_bytes,
        interface_bytes_sent=answer.interface_bytes_sent,
        interface_bytes_received=answer.interface_bytes_received,
        read_at=read_at,
        blocks_damaged=answer.blocks_damaged,
        paths=tuple(PathState(each.interface, each.up) for each in answer.interfaces if each.up is not None),
        interfaces=tuple(
            InterfaceTraffic(each.interface, each.bytes_sent, each.bytes_received, each.wire_bytes) for each in answer.interfaces
        ),
        preflight_warnings=read_checks(answer.preflight.warnings) if answer.preflight and answer.preflight.passed else None,
    )
