"""`NetworkPath.status`: what transfers have measured on the path."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from fairlead.api.shared.fields import Condition
from fairlead.api.shared.resource import ApiModel, Timestamp
from fairlead.api.shared.schema import marks

MOST_POINTS: Final = 16
"""Transfers that the profile remembers."""
MOST_ENGINE_POINTS: Final = 4
"""Attempts that are remembered of each transport protocol."""
Engine = Literal["TCP", "QUIC", "UDT"]
MOST_NAMESPACES: Final = 16
"""Namespaces whose own measurements are remembered."""


class PathBackground(ApiModel):
    """What else was on the path when an advisor last looked."""

    class_: str = Field(alias="class")
    """The likeliest class of the background traffic, e.g. `B1-C0`."""

    probability: str
    """Probability of that class, e.g. `0.93`."""

    probabilities: dict[str, str] = Field(default_factory=dict)
    """Probability of every class."""

    any_bbr: str = Field(alias="anyBBR")
    """Probability that any BBR is in the background."""

    confidence: str
    """Probability that the answer to whether there is any BBR is right."""

    abstained: bool
    """Whether the classifier did not stand by its answer."""

    model: str
    """Version of the model."""

    measured_time: Timestamp
    """When it was measured."""


class ProfilePoint(ApiModel):
    """What one transfer got, where nothing but the path held it back as far as Fairlead knows."""

    job: Annotated[str, Field(max_length=64)]
    """UID of the TransferJob."""

    attempt: int
    """Number of its attempt."""

    congestion_control: str
    """Congestion control at its end."""

    streams: int
    """Parallel streams at its end."""

    rate: str
    """Mean goodput of its bulk phase in decimal bits per second."""

    stream_coefficient: str | None = None
    """Streams per megabit of rate times RTT that it found best; absent where its search had not ended."""

    time: Timestamp
    """When it ended."""


class EnginePoint(ApiModel):
    """What one attempt showed of the transport protocol that it was to use."""

    job: Annotated[str, Field(max_length=64)]
    """UID of the TransferJob."""

    attempt: int
    """Number of its attempt."""

    protocol: Engine
    """The protocol."""

    goodput: str | None = None
    """Mean rate of its bulk phase in decimal bits per second; absent where UDP did not get through and the data had to go over TCP."""

    at_cap: bool = False
    """Whether it was its cap that held it back."""

    resent: str | None = None
    """Payload bytes sent for each one delivered, less one, e.g. `0.002`."""

    cpu_seconds_per_gigabyte: str | None = None
    """Processor time of the sender's mover for each gigabyte delivered."""

    time: Timestamp
    """When it ended, or when it was seen that UDP does not get through."""


class ProbeLease(ApiModel):
    """Who probes the path: one at a time, so that no probe takes another for background."""

    job: Annotated[str, Field(max_length=64)]
    """UID of the TransferJob."""

    attempt: int
    """Number of its attempt."""

    expiration_time: Timestamp
    """When the lease ends whatever has become of its holder. It ends sooner when the advisor has decided or its pod has ended."""


class PathKnowledge(ApiModel):
    """What transfers have measured on the path."""

    rtt: str | None = None
    """Median round-trip time of the last probe, e.g. `60.213ms`."""

    rtt_minimum: str | None = None
    """Least round-trip time of the last day's probes."""

    loss: str | None = None
    """Share of the last probe's requests that were lost, e.g. `0.001`."""

    last_measured_time: Timestamp | None = None
    """When the path was last probed."""

    background: PathBackground | None = None
    """What else was on the path."""

    capacity: str | None = None
    """Most that one transfer got within a day before the latest, in decimal bits per second."""

    stream_coefficient: str | None = None
    """Streams per megabit of rate times RTT that suit the path: the mean of the profile's, newer ones counting more."""

    profile: Annotated[tuple[ProfilePoint, ...], Field(max_length=MOST_POINTS)] = Field(
        default=(), json_schema_extra=marks(list_type="map", list_map_keys=("job", "attempt"))
    )
    """The latest transfers on the path, newest first."""

    engines: Annotated[tuple[EnginePoint, ...], Field(max_length=3 * MOST_ENGINE_POINTS)] = Field(
        default=(), json_schema_extra=marks(list_type="map", list_map_keys=("job", "attempt"))
    )
    """What the latest transfers over each transport protocol showed of it, newest first. A job with protocol `Auto` goes by those of its
    own namespace."""


class NamespaceKnowledge(PathKnowledge):
    """What the transfers of one namespace have measured on the path."""

    namespace: Annotated[str, Field(max_length=63)]
    """The namespace."""


class NetworkPathStatus(PathKnowledge):
    """What was measured on the path. Written when a probe begins, when the last transfer on it has ended, and every 10 minutes between."""

    conditions: Annotated[tuple[Condition, ...], Field(max_length=16)] = Field(
        default=(), json_schema_extra=marks(list_type="map", list_map_keys=("type",))
    )
    """What holds for the path."""

    namespaces: Annotated[tuple[NamespaceKnowledge, ...], Field(max_length=MOST_NAMESPACES)] = Field(
        default=(), json_schema_extra=marks(list_type="map", list_map_keys=("namespace",))
    )
    """The same by namespace: a transfer is given what those of its own namespace have measured, and of others a hint at most."""

    lease: ProbeLease | None = None
    """Who probes the path, as of the last write."""

    observed_generation: int | None = None
    """The generation of the spec that this status answers."""
