"""The file with the size of a data set and what it is drawn from."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from fairlead_dev.checkout import WAN_DATA
from fairlead_dev.testbed.dataset.classes import SIDES, BackgroundClass, TrafficKind
from fairlead_dev.testbed.scenario.model import EmulatorKind, Path, Positive, QueueKind, ThinAcks, refuse_on_kernel

DATASETS = WAN_DATA / "datasets"
"""Where the specifications are, and beside them the data sets that come with the repository."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Range(_Part):
    """Values from `low` to `high`, log-uniform."""

    low: Annotated[float, Field(gt=0)]
    high: Annotated[float, Field(gt=0)]

    @model_validator(mode="after")
    def _ascends(self) -> Range:
        if self.low > self.high:
            raise ValueError("low must not exceed high")
        return self

    def at(self, share: float) -> float:
        """The value below which `share` of them are."""
        return float(self.low * (self.high / self.low) ** share)


class DrawnPaths(_Part):
    """Paths drawn so that each quantity is covered evenly (a Latin hypercube). Rates are in b/s of IP packets."""

    known: Annotated[int, Field(ge=0, le=500)]
    unseen: Annotated[int, Field(ge=0, le=500)]
    training_only: Annotated[int, Field(ge=0, le=500)] = 0
    """More known paths from the same ranges, with one training recording of each class and none for a test. Their number does not change
    the other paths."""
    rtt_ms: Range
    rate_bps: Range
    fast_rate_bps: Range | None = None
    """A few paths are faster: they cannot run side by side."""
    fast_share: Annotated[float, Field(ge=0, le=1)] = 0.0
    buffer_bdp: Range
    least_full_queue_ms: Annotated[float, Field(ge=0)] = 0.0
    """A smaller buffer is drawn up to this delay: a queue that is no longer than the emulator's own jitter shows nothing in an RTT."""
    loss_ratio: Range
    loss_share: Annotated[float, Field(ge=0, le=1)]
    """The share of paths with any random loss."""
    queue: Annotated[tuple[QueueKind, ...], Field(min_length=1)] = ("drop-tail",)
    """Kinds of queue, of which each path has one; named twice, a kind is twice as frequent."""
    police_udp: Range | None = None
    """The rate that UDP is held to, as a share of the path's."""
    police_udp_share: Annotated[float, Field(ge=0, le=1)] = 0.0
    """The share of paths that do so."""
    thin_acks: Annotated[tuple[ThinAcks, ...], Field(min_length=1)] = (1,)
    """Of so many acknowledgements one comes back; each path has one of the numbers, and 1 drops none."""
    emulator: EmulatorKind = "fairlead-wan"
    """Of all paths; it changes nothing else of them."""
    prefix: Annotated[str, Field(pattern=r"^[a-z][a-z-]{0,15}$")] = "p"
    """What the names of known and unseen paths begin with, so that those of two data sets differ."""

    @model_validator(mode="after")
    def _shares_have_a_range(self) -> DrawnPaths:
        if self.fast_share > 0 and self.fast_rate_bps is None:
            raise ValueError("fast_share needs fast_rate_bps")
        if self.police_udp_share > 0 and self.police_udp is None:
            raise ValueError("police_udp_share needs police_udp")
        return self

    @model_validator(mode="after")
    def _emulator_can_do_it(self) -> DrawnPaths:
        asked = {
            "queue": self.queue != ("drop-tail",),
            "police_udp": self.police_udp is not None,
            "thin_acks": self.thin_acks != (1,),
        }
        refuse_on_kernel(self.emulator, asked)
        return self


class FixedPath(_Part):
    """A known path of its own length and number of seeds."""

    id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,31}$")]
    path: Path
    duration_s: Positive
    train_seeds: Annotated[int, Field(ge=0, le=100)]
    test_seeds: Annotated[int, Field(ge=0, le=100)]
    active_seeds: Annotated[int, Field(ge=0, le=100)] = 0
    """Runs of kind ACTIVE, for the comparison with passive probing."""
    active_duration_s: Positive | None = None
    """Their length, if other than `duration_s`; whole cycles of 20 s start windows at phase 0."""


class KindRuns(_Part):
    """Runs of a kind that is never trained on: on so many paths, one seed for each of the classes."""

    kind: TrafficKind
    paths: Annotated[int, Field(ge=1, le=500)]
    classes: tuple[BackgroundClass, ...]

    @model_validator(mode="after")
    def _is_not_steady(self) -> KindRuns:
        if self.kind in (TrafficKind.STEADY, TrafficKind.ACTIVE, TrafficKind.BURSTS):
            raise ValueError(f"kind {self.kind} has its own seeds elsewhere; give one of on_off, udp_bursts, many_flows, loss")
        least_sides = {TrafficKind.ON_OFF: 1, TrafficKind.MANY_FLOWS: 2}.get(self.kind, 0)
        for background in self.classes:
            if len(SIDES[background].controls) < least_sides:
                raise ValueError(f"kind {self.kind} needs {least_sides} source(s) of traffic, class {background} has fewer")
        return self


class Specification(_Part):
    """A data set. Everything random is derived from `seed`."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,31}$")]
    seed: Annotated[int, Field(ge=0, lt=2**53)]
    probe_rate_hz: Annotated[float, Field(ge=10, le=200)] = 50.0
    duration_s: Positive
    train_seeds: Annotated[int, Field(ge=0, le=100)]
    """Recordings of each class on every known path."""
    test_seeds: Annotated[int, Field(ge=0, le=100)]
    """More such recordings, for the test on new seeds."""
    unseen_path_seeds: Annotated[int, Field(ge=1, le=100)]
    burst_seeds: Annotated[int, Field(ge=0, le=100)] = 0
    """Recordings of kind BURSTS of each class on every known path."""
    most_flows_per_side: Annotated[int, Field(ge=1, le=8)]
    """Of two sources, each has 1 to so many flows; one flow each in half of the runs."""
    drawn_paths: DrawnPaths
    fixed_paths: tuple[FixedPath, ...] = ()
    kinds: tuple[KindRuns, ...] = ()

    @model_validator(mode="after")
    def _ids_differ(self) -> Specification:
        ids = [path.id for path in self.fixed_paths]
        if len(set(ids)) != len(ids):
            raise ValueError("fixed_paths: ids must differ")
        if self.train_seeds + self.burst_seeds == 0:
            raise ValueError("known paths would have no recording: give train_seeds or burst_seeds")
        return self
