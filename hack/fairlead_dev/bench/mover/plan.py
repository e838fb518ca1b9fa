"""The parts of the bench in their order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fairlead_dev.bench.mover import resume
from fairlead_dev.bench.mover.bench import Bench
from fairlead_dev.bench.mover.parts import caps, disk, footprint, memory, small, switch
from fairlead_dev.bench.mover.report import Row


@dataclass(frozen=True, slots=True)
class Part:
    """Rows that are measured together."""

    name: str
    rows: tuple[str, ...]
    measure: Callable[[Bench], list[Row]]
    limit_s: float
    """Past it the part is given up."""
    programs: tuple[str, ...] = ()
    """Without which it cannot be; those that are only compared with are not among them."""


def _vs(what: str) -> tuple[str, ...]:
    return tuple(f"{what}_vs_{other}" for other in ("rclone", "xrootd", "gridftp"))


PARTS = (
    Part("memory", ("memory_1", "memory_4", "memory_4_tls"), memory.measure, 400, ("iperf3", "openssl")),
    Part("disk", ("disk_4gib", *_vs("disk"), "cpu_s_per_gb_send", "cpu_s_per_gb_receive"), disk.measure, 600, ("iperf3",)),
    Part("small_lan", (*_vs("small_lan"), "small_vs_big_lan", "small_vs_big_unlimited"), small.measure_lan, 900),
    Part("small_wan", _vs("small_wan"), small.measure_wan, 700),
    Part("streams", ("rss_64_streams",), footprint.measure_streams, 240),
    Part("files", ("rss_1m_files",), footprint.measure_files, 900),
    Part("caps", ("cap_error_p99",), caps.measure_error, 300),
    Part("cap_change", ("cap_change_s",), caps.measure_change, 120),
    Part("resume", ("resume_waste", "resume_waste_received"), resume.measure, 1200),
    Part("switch", ("switch_s", "switch_streams_lost"), switch.measure, 180),
)
OTHERS = ("rclone", "xrootd", "xrdcp", "globus-gridftp-server", "globus-url-copy")
"""Programs that are only compared with."""


def chosen(names: list[str]) -> list[Part]:
    """The parts that have these names or rows; all without names. Raises ValueError naming what there is."""
    unknown = [name for name in names if not any(name == part.name or name in part.rows for part in PARTS)]
    if unknown:
        there_are = "; ".join(f"{part.name} ({', '.join(part.rows)})" for part in PARTS)
        raise ValueError(f"--only {unknown[0]}: there is no such part or row; there are {there_are}")
    return [part for part in PARTS if not names or part.name in names or set(names) & set(part.rows)]
