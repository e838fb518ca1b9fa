"""How one link is shared, from the operator's own allocation."""

from __future__ import annotations

import math

from fairlead.core.allocation import AllocationJob, AllocationLink, AllocationTenant, allocate
from fairlead_dev.pictures.svg import Drawing, Fill

M = 1e6
CAPACITY_BPS, HEADROOM = 1000 * M, 0.1
# name, weight, guarantee, demand (None: all it can get) in Mb/s
TENANTS: tuple[tuple[str, float, float, float | None], ...] = (
    ("astro", 2, 0, None),
    ("bio", 1, 0, None),
    ("climate", 1, 0, 120),
    ("dna", 1, 300, None),
)
_FILLS: tuple[Fill, ...] = ("blue", "green", "orange", "grey")
_WHY = ("two weights", "one weight", "wants no more", "guaranteed")
_UNIT, _SCALE, _BASE, _LEFT = 130, 0.9, 320, 140


def shares_bps() -> dict[str, float]:
    """What each tenant gets, by the code that shares links in the cluster."""
    tenants = [AllocationTenant(name, weight=weight, guarantee_bps=guarantee * M) for name, weight, guarantee, _ in TENANTS]
    jobs = [
        AllocationJob(name, tenant=name, links=("wan",), demand_bps=math.inf if demand is None else demand * M)
        for name, _, _, demand in TENANTS
    ]
    return dict(allocate([AllocationLink("wan", capacity_bps=CAPACITY_BPS, headroom_bps=HEADROOM * CAPACITY_BPS)], tenants, jobs).jobs)


def shares() -> str:
    """The picture of docs/explanation/fair-shares.md: columns as wide as the weight and as high as the rate per weight."""
    got = {name: rate / M for name, rate in shares_bps().items()}
    picture = Drawing(
        900, 410, "Four tenants on one link: columns as wide as their weight, filled to one level, and their areas are their rates"
    )
    x = float(_LEFT)
    level = got["bio"]
    for (name, weight, _, _), fill, why in zip(TENANTS, _FILLS, _WHY, strict=True):
        width, height = weight * _UNIT, got[name] / weight * _SCALE
        picture.box((x, _BASE - height), (width, height), [], fill)
        picture.text((x + width / 2, _BASE - 50), name, bold=True)
        picture.text((x + width / 2, _BASE - 32), f"{got[name]:g} Mb/s")
        picture.text((x + width / 2, _BASE + 20), why, quiet=True)
        x += width
    picture.line((_LEFT, _BASE), (x, _BASE))
    picture.line((_LEFT - 15, _BASE - level * _SCALE), (x + 15, _BASE - level * _SCALE), dashed=True)
    picture.text((_LEFT - 20, _BASE - level * _SCALE + 5), f"level λ = {level:g}", anchor="end")
    picture.text((_LEFT - 20, _BASE - 5), "0", anchor="end")
    picture.text((_LEFT - 20, 30), "Mb/s per weight", anchor="start", quiet=True)
    total = sum(got.values())
    picture.text((_LEFT, 370), f"1000 Mb/s less 10% headroom = {total:g} Mb/s: λ rises until the areas fill it.", anchor="start", bold=True)
    picture.text(
        (_LEFT, 392),
        "Who wants less stays below the level; who is guaranteed more stands above it, and lowers it for the others.",
        anchor="start",
    )
    return picture.render()
