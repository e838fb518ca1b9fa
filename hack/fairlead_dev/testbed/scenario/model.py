"""A scenario: a path, the traffic on it and how it is probed. Rates are decimal bits per second of IP packets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

MTU_BYTES = 1500
BURST_PAYLOAD_BYTES = 1200
BURST_PACKET_BYTES = BURST_PAYLOAD_BYTES + 28
"""With the headers of IP and UDP; below the MTU of every path that tunnels."""
MAXIMUM_HELD_BYTES = 256_000_000
"""Above this a path's flight and queue outgrow the sockets' buffers of the test bed."""

Seconds = Annotated[float, Field(ge=0, le=3600)]
Positive = Annotated[float, Field(gt=0, le=3600)]
QueueKind = Literal["drop-tail", "drop-tail-packets", "codel", "fq-codel"]
ThinAcks = Annotated[int, Field(ge=1, le=1000)]
EmulatorKind = Literal["fairlead-wan", "kernel"]
"""What makes the bottleneck: `fairlead-wan` by itself, or the kernel's token bucket and buffer with `fairlead-wan` for the delay alone."""


def refuse_on_kernel(emulator: EmulatorKind, asked: Mapping[str, bool]) -> None:
    """ValueError naming the fields of `asked` that are true, if the emulator is the kernel, whose buffer only drops what does not fit."""
    if emulator == "kernel" and (fields := [name for name, is_asked in asked.items() if is_asked]):
        raise ValueError(
            f'{", ".join(fields)}: emulator = "kernel" has a rate, a delay, a drop-tail buffer of bytes and random loss alone: '
            'leave it out, or give emulator = "fairlead-wan"'
        )


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Policing(_Part):
    """A rate above which packets are dropped, and the bytes that may come at once: by default 10 ms of the rate, 15 kB at least."""

    rate_bps: Annotated[int, Field(ge=10_000, le=2_000_000_000)]
    burst_bytes: Annotated[int, Field(ge=MTU_BYTES, le=MAXIMUM_HELD_BYTES)] | None = None

    @property
    def written(self) -> str:
        """As the emulator takes it."""
        return f"{self.rate_bps}" if self.burst_bytes is None else f"{self.rate_bps},{self.burst_bytes}"


class Path(_Part):
    """One bottleneck each way with equal parameters: rate, propagation delay, a queue, policing, random loss."""

    rate_bps: Annotated[int, Field(ge=1_000_000, le=2_000_000_000)]
    rtt_ms: Annotated[float, Field(ge=0.1, le=1000)]
    buffer_bytes: Annotated[int, Field(ge=2 * MTU_BYTES, le=MAXIMUM_HELD_BYTES)] | None = None
    buffer_bdp: Annotated[float, Field(gt=0, le=20)] | None = None
    loss_ratio: Annotated[float, Field(ge=0, le=0.5)] = 0.0
    queue: QueueKind = "drop-tail"
    police: Policing | None = None
    """Of all packets, the probe's too."""
    police_udp: Policing | None = None
    """Of UDP, to which the probe belongs."""
    thin_acks: ThinAcks = 1
    """Of the bare acknowledgements of a forward flow each so-many-th comes back."""
    emulator: EmulatorKind = "fairlead-wan"

    @model_validator(mode="after")
    def _emulator_can_do_it(self) -> Path:
        asked = {
            "queue": self.queue != "drop-tail",
            "police": self.police is not None,
            "police_udp": self.police_udp is not None,
            "thin_acks": self.thin_acks != 1,
        }
        refuse_on_kernel(self.emulator, asked)
        return self

    @model_validator(mode="after")
    def _has_one_buffer(self) -> Path:
        if (self.buffer_bytes is None) == (self.buffer_bdp is None):
            raise ValueError("give exactly one of buffer_bytes and buffer_bdp")
        if self.bdp_bytes + self.queue_bytes > MAXIMUM_HELD_BYTES:
            raise ValueError(
                f"holds {self.bdp_bytes + self.queue_bytes:.0f} bytes in flight and queued, at most {MAXIMUM_HELD_BYTES} fit into "
                "the sockets' buffers: lower rate_bps, rtt_ms or the buffer"
            )
        return self

    @property
    def bdp_bytes(self) -> float:
        """The bandwidth-delay product."""
        return self.rate_bps / 8 * self.rtt_ms / 1000

    @property
    def queue_bytes(self) -> int:
        """The buffer of each direction; never less than two packets."""
        if self.buffer_bytes is not None:
            return self.buffer_bytes
        assert self.buffer_bdp is not None
        return max(2 * MTU_BYTES, round(self.buffer_bdp * self.bdp_bytes))

    @property
    def full_queue_ms(self) -> float:
        """How long a packet waits behind a full buffer."""
        return self.queue_bytes * 8 / self.rate_bps * 1000

    @property
    def is_plain(self) -> bool:
        """Whether there is nothing but a rate, a delay, a drop-tail buffer and random loss."""
        return self.queue == "drop-tail" and self.police is None and self.police_udp is None and self.thin_acks == 1


class Constant(_Part):
    """Always on."""

    kind: Literal["constant"] = "constant"


class OnOff(_Part):
    """A square wave: on for `on_s`, silent for `off_s`, beginning with on. Every on phase of TCP is a new connection."""

    kind: Literal["on_off"]
    on_s: Annotated[float, Field(ge=0.1, le=3600)]
    off_s: Annotated[float, Field(ge=0.1, le=3600)]


class Transfers(_Part):
    """One file after another, as a client of a file server copies them: log-normal sizes, exponential pauses between."""

    kind: Literal["transfers"]
    size_bytes_median: Annotated[int, Field(ge=1000, le=20_000_000_000)]
    size_sigma: Annotated[float, Field(ge=0, le=3)] = 0.0
    pause_s_mean: Annotated[float, Field(ge=0, le=600)] = 0.0


Pattern = Annotated[Constant | OnOff | Transfers, Field(discriminator="kind")]


class TrafficFlow(_Part):
    """`count` equal flows. Times count from the start of the recording; the warm-up is before 0."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,31}$")]
    role: Literal["background", "foreground"] = "background"
    protocol: Literal["tcp", "udp"] = "tcp"
    congestion_control: Annotated[str, Field(pattern=r"^[a-z0-9_]{1,15}$")] | None = None
    rate_bps: Annotated[int, Field(ge=10_000, le=2_000_000_000)] | None = None
    count: Annotated[int, Field(ge=1, le=32)] = 1
    direction: Literal["forward", "reverse"] = "forward"
    start_s: Annotated[float, Field(ge=-3600, le=3600)] | None = None
    stop_s: Annotated[float, Field(ge=-3600, le=3600)] | None = None
    pattern: Pattern = Constant()

    @model_validator(mode="after")
    def _fits_its_protocol(self) -> TrafficFlow:
        if self.protocol == "tcp" and (self.congestion_control is None or self.rate_bps is not None):
            raise ValueError("a tcp flow needs congestion_control and takes no rate_bps: it is greedy")
        if self.protocol == "udp" and (self.rate_bps is None or self.congestion_control is not None):
            raise ValueError("a udp flow needs rate_bps and takes no congestion_control")
        if self.protocol == "udp" and isinstance(self.pattern, Transfers):
            raise ValueError("pattern transfers needs tcp: a file must arrive whole")
        return self


class Burst(_Part):
    """Large echo requests in a row: at `rate_bps`, or without it as fast as the sender can hand them on."""

    start_s: Annotated[float, Field(ge=0, le=3600)]
    packets: Annotated[int, Field(ge=1, le=100_000)]
    rate_bps: Annotated[int, Field(ge=10_000, le=2_000_000_000)] | None = None

    @property
    def seconds(self) -> float:
        """How long the sending takes; nought without a rate."""
        return 0.0 if self.rate_bps is None else self.packets * BURST_PACKET_BYTES * 8 / self.rate_bps


class ScenarioProbe(_Part):
    """Echo requests of the product's own probe, in namespaces of their own."""

    rate_hz: Annotated[float, Field(ge=10, le=200)] = 50.0
    bursts: tuple[Burst, ...] = ()
    """Active probing beside those requests, in the order of time."""


class Scenario(_Part):
    """Everything a run needs; the same scenario and seed give the same plan of traffic."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,63}$")]
    description: str = ""
    duration_s: Annotated[float, Field(ge=1, le=3600)]
    warm_up_s: Seconds = 10.0
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    path: Path
    probe: ScenarioProbe = ScenarioProbe()
    flows: tuple[TrafficFlow, ...] = ()

    @model_validator(mode="after")
    def _flows_are_distinct_and_in_time(self) -> Scenario:
        names = [flow.name for flow in self.flows]
        for index, flow in enumerate(self.flows):
            if flow.name in names[:index]:
                raise ValueError(f"flows[{index}].name: {flow.name!r} is taken: names must differ")
            start_s, stop_s = self.flow_times_s(flow)
            if start_s < -self.warm_up_s or stop_s > self.duration_s or start_s >= stop_s:
                raise ValueError(
                    f"flows[{index}]: from {start_s:g} to {stop_s:g} s is outside the run from {-self.warm_up_s:g} (the warm-up) "
                    f"to {self.duration_s:g} s, or empty: change start_s or stop_s"
                )
        return self

    @model_validator(mode="after")
    def _bursts_are_in_time_and_apart(self) -> Scenario:
        before_s = 0.0
        for index, burst in enumerate(self.probe.bursts):
            end_s = burst.start_s + burst.seconds
            if burst.start_s < before_s or end_s > self.duration_s:
                raise ValueError(
                    f"probe.bursts[{index}]: from {burst.start_s:g} to {end_s:g} s begins before the one before it ends, or ends after the "
                    f"recording of {self.duration_s:g} s: change start_s, packets or rate_bps"
                )
            before_s = end_s
        return self

    def flow_times_s(self, flow: TrafficFlow) -> tuple[float, float]:
        """When `flow` starts and stops: by default with the warm-up and the run."""
        return (
            -self.warm_up_s if flow.start_s is None else flow.start_s,
            self.duration_s if flow.stop_s is None else flow.stop_s,
        )
