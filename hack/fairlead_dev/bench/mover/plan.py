"""The parts of the bench in their order, and what their rows are to reach."""

from __future__ import annotations

from fairlead_dev.bench.mover import resume
from fairlead_dev.bench.mover.parts import before, caps, disk, footprint, memory, small, switch
from fairlead_dev.bench.rows import Goal
from fairlead_dev.bench.runner import Part


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
    Part("before", tuple(before.CASES), before.measure, 1800, on_request=True),
)
OTHERS = ("rclone", "xrootd", "xrdcp", "globus-gridftp-server", "globus-url-copy")
"""Programs that are only compared with."""

GOALS = {
    "memory_1": Goal("at_least", 0.9),
    "memory_4": Goal("at_least", 0.9),
    "memory_4_tls": Goal("at_least", 0.5),
    "disk_4gib": Goal("at_least", 0.85),
    **{
        f"{what}_vs_{tool}": Goal("at_least", 1.0)
        for what in ("disk", "small_lan", "small_wan")
        for tool in ("rclone", "xrootd", "gridftp")
    },
    "small_vs_big_lan": Goal("at_least", 0.5),
    "rss_64_streams": Goal("at_most", 256, "value"),
    "rss_1m_files": Goal("at_most", 128, "value"),
    "cap_error_p99": Goal("at_most", 0.02, "value"),
    "cap_change_s": Goal("at_most", 1.0, "value"),
    "resume_waste": Goal("at_most", 0.01, "value"),
    "switch_streams_lost": Goal("at_most", 0, "value"),
    **{name: Goal("at_least", 0.98) for name in before.CASES},
}
