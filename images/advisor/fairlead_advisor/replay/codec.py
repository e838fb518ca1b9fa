"""The event log's values as JSON: statistics, samples, classifications and errors, each written and read in one place."""

import math
from array import array
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from fairlead_advisor import errors
from fairlead_advisor.decide.background import Background
from fairlead_advisor.decide.model import DEFAULT_STREAMS, TCP, BufferLimits, History, TransportLimits
from fairlead_advisor.decide.transfer import MoverStats, StreamStats, TransportSettings
from fairlead_advisor.errors import AdvisorError, TransportRefusedError
from fairlead_advisor.probe.trace import Trace
from fairlead_advisor.steer.known import KnownPath
from fairlead_advisor.steer.mover import Peer

Json = dict[str, Any]

_STREAM_FIELDS = (
    "number",
    "bytes_sent",
    "retransmits",
    "rtt_s",
    "rtt_minimum_s",
    "congestion_control",
    "busy_s",
    "send_buffer_limited_s",
    "receive_window_limited_s",
    "path",
)


def stats_json(stats: MoverStats) -> Json:
    """The mover's statistics; a stream is a list of its fields in the order of _STREAM_FIELDS."""
    return {
        "stage": stats.stage,
        "read_at_s": stats.read_at_s,
        "protocol": stats.protocol,
        "available": sorted(stats.available_congestion_controls),
        "cap_bps": stats.cap_bps,
        "quiet_s": stats.quiet_s,
        "buffers": None if stats.buffers is None else _buffers_json(stats.buffers),
        "streams": [[getattr(stream, field) for field in _STREAM_FIELDS] for stream in stats.streams],
    }


def read_stats(body: Mapping[str, Any]) -> MoverStats:
    """The inverse of `stats_json`."""
    return MoverStats(
        body["stage"],
        frozenset(body["available"]),
        # A log of an earlier version has fewer fields.
        tuple(StreamStats(**dict(zip(_STREAM_FIELDS, stream, strict=False))) for stream in body["streams"]),
        body["cap_bps"],
        body["quiet_s"],
        None if body["buffers"] is None else BufferLimits(**body["buffers"]),
        body.get("protocol", TCP),
        body.get("read_at_s"),
    )


def _buffers_json(buffers: BufferLimits) -> Json:
    return {
        "automatic_bytes": buffers.automatic_bytes,
        "settable_bytes": buffers.settable_bytes,
        "set_bytes": buffers.set_bytes,
        "set_by_user": buffers.set_by_user,
    }


def transport_json(transport: TransportSettings) -> Json:
    """Settings in force or asked for."""
    return {
        "congestion_control": transport.congestion_control,
        "streams": transport.streams,
        "socket_buffer_bytes": transport.socket_buffer_bytes,
    }


def read_transport(body: Mapping[str, Any]) -> TransportSettings:
    """The inverse of `transport_json`."""
    return TransportSettings(body["congestion_control"], body["streams"], body["socket_buffer_bytes"])


def peer_json(peer: Peer) -> Json:
    """The peer without its echo key, which is a secret."""
    return {"address": peer.address, "source_address": peer.source_address, "echo_port": peer.echo_port}


def read_peer(body: Mapping[str, Any]) -> Peer:
    """The inverse of `peer_json`, with an echo key of zeros."""
    return Peer(body["address"], body["source_address"], body["echo_port"], bytes(16))


def trace_json(trace: Trace, begins_s: float) -> Json:
    """Send times on the log's clock (us), RTTs in ms (0.1 us), null for a lost request."""
    return {
        "sent_s": [round(begins_s + time_s, 6) for time_s in trace.send_times_s],
        "rtts_ms": [rtt_json(None if math.isnan(rtt_ms) else rtt_ms) for rtt_ms in trace.rtts_ms],
    }


def rtt_json(rtt_ms: float | None) -> float | None:
    """An RTT in ms to 0.1 us."""
    return None if rtt_ms is None else round(rtt_ms, 4)


def trace_of(samples: list[tuple[float, float | None]]) -> Trace:
    """Pairs of a send time (s) and an RTT (ms) as a trace, which begins at its first request."""
    first_s = samples[0][0] if samples else 0.0
    return Trace(
        array("d", (sent_s - first_s for sent_s, _ in samples)),
        array("d", (math.nan if rtt_ms is None else rtt_ms for _, rtt_ms in samples)),
    )


def background_json(background: Background) -> Json:
    """A classification without loss of precision."""
    return {
        "probabilities": dict(background.probabilities),
        "any_bbr": background.any_bbr,
        "confidence": background.confidence,
        "abstained": background.abstained,
        "model": background.model,
        "novel": background.novel,
        "sure_from": background.sure_from,
        "measured_at": None if background.measured_at is None else background.measured_at.isoformat(),
    }


def read_background(body: Mapping[str, Any]) -> Background:
    """The inverse of `background_json`."""
    measured_at = body["measured_at"]
    return Background(**{**body, "measured_at": None if measured_at is None else datetime.fromisoformat(measured_at)})


def error_json(error: AdvisorError) -> Json:
    """A failure by its class, with what a refusal carries."""
    body: Json = {"error": type(error).__name__, "message": str(error)}
    if isinstance(error, TransportRefusedError):
        body |= {"field": error.field, "reason": error.reason}
    return body


def read_error(body: Mapping[str, Any]) -> AdvisorError:
    """The inverse of `error_json`; an unknown class is read as AdvisorError."""
    found = getattr(errors, body["error"], None)
    kind = found if isinstance(found, type) and issubclass(found, AdvisorError) else AdvisorError
    if kind is TransportRefusedError:
        return TransportRefusedError(body["field"], body["reason"], body["message"])
    return kind(body["message"])


def limits_json(limits: TransportLimits) -> Json:
    """What the job allows, by the command line."""
    return {
        "streams_minimum": limits.streams_minimum,
        "streams_maximum": limits.streams_maximum,
        "congestion_control": limits.congestion_control,
        "allocated": limits.allocated,
        "others_weight": limits.others_weight,
        "shares": limits.shares,
    }


def read_limits(body: Mapping[str, Any]) -> TransportLimits:
    """The inverse of `limits_json`; logs from before there were shares are of four."""
    return TransportLimits(**{"shares": DEFAULT_STREAMS, **body})


def history_json(history: History) -> Json:
    """What is known of the path, by the command line."""
    return {"capacity_bps": history.capacity_bps, "stream_coefficient": history.stream_coefficient}


def read_history(body: Mapping[str, Any]) -> History:
    """The inverse of `history_json`."""
    return History(**body)


def known_json(known: KnownPath | None) -> Json | None:
    """What an earlier transfer measured."""
    if known is None:
        return None
    background = None if known.background is None else background_json(known.background)
    return {"rtt_minimum_s": known.rtt_minimum_s, "background": background, "beside_own": known.beside_own}


def read_known(body: Mapping[str, Any] | None) -> KnownPath | None:
    """The inverse of `known_json`."""
    if body is None:
        return None
    background = None if body["background"] is None else read_background(body["background"])
    return KnownPath(body["rtt_minimum_s"], background, body["beside_own"])
