"""Paths on which transport protocols are compared: what the path does to UDP, and whether jobs have a cap there."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from fairlead_dev.testbed.dataset.draw import even_paths
from fairlead_dev.testbed.dataset.specification import DrawnPaths, Range
from fairlead_dev.testbed.scenario.expand import draws
from fairlead_dev.testbed.scenario.model import Path, Policing

_PURPOSE = "engines"


class EnginePath(Path):
    """A path with the cap of the jobs on it."""

    emulator: Literal["fairlead-wan"] = "fairlead-wan"
    """The bench that these paths are for has no other."""

    cap_bps: Annotated[int, Field(ge=1_000_000)] | None = None
    """Of every job there, whichever protocol it uses; None without one."""
    udp_blocked: bool = False
    """No datagram gets through, either way."""

    @property
    def bars_udp(self) -> bool:
        """Whether UDP is policed or blocked."""
        return self.udp_blocked or self.police_udp is not None


class EngineSetSpecification(BaseModel):
    """What such paths are drawn from. Everything random is derived from `seed`."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    seed: Annotated[int, Field(ge=0, lt=2**53)]
    drawn_paths: DrawnPaths
    """Of which `unseen` is the number of paths."""
    police_udp_bps: Range
    udp_policed: Annotated[int, Field(ge=0)]
    udp_blocked: Annotated[int, Field(ge=0)]
    """So many other ones."""
    capped: Annotated[int, Field(ge=0)]
    """So many, of whichever kind."""
    cap_ratio: Range
    """The cap, as a share of the path's rate."""

    @model_validator(mode="after")
    def _has_paths_enough(self) -> EngineSetSpecification:
        if max(self.udp_policed + self.udp_blocked, self.capped) > self.drawn_paths.unseen:
            raise ValueError("udp_policed and udp_blocked together, and capped, must not exceed drawn_paths.unseen")
        return self


def draw_engine_paths(specification: EngineSetSpecification) -> dict[str, EnginePath]:
    """The paths by their names; always the same for a specification."""
    drawn, seed = specification.drawn_paths, specification.seed
    plain = dict(even_paths(drawn, drawn.unseen, seed, _PURPOSE, drawn.prefix))
    udp, caps = draws(seed, _PURPOSE, "udp"), draws(seed, _PURPOSE, "caps")
    barring = udp.sample(list(plain), specification.udp_policed + specification.udp_blocked)
    policed_bps = {name: _round_bps(specification.police_udp_bps.at(udp.random())) for name in barring[: specification.udp_policed]}
    caps_bps = {
        name: _round_bps(specification.cap_ratio.at(caps.random()) * plain[name].rate_bps)
        for name in caps.sample(list(plain), specification.capped)
    }
    return {
        name: EnginePath(
            **path.model_dump(exclude={"police_udp"}),
            police_udp=Policing(rate_bps=policed_bps[name]) if name in policed_bps else None,
            udp_blocked=name in barring[specification.udp_policed :],
            cap_bps=caps_bps.get(name),
        )
        for name, path in plain.items()
    }


def _round_bps(rate_bps: float) -> int:
    return round(rate_bps / 1e5) * 100_000
