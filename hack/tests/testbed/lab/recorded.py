"""The runs that the tests in namespaces look at, and what those need."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

from fairlead_dev.errors import CommandUsageError
from fairlead_dev.testbed.runs.record import MANIFEST
from fairlead_dev.testbed.scenario.model import Scenario
from fairlead_dev.wan.emulator import find_program

from ..build import path, scenario, tcp, udp

TRAINS = 5
SHALLOW = path(rate_bps=20_000_000, rtt_ms=20, buffer_bdp=1.0)
SCENARIOS = {
    "idle": scenario(name="idle", duration_s=3, warm_up_s=0, path=SHALLOW),
    "full": scenario(tcp("bulk"), name="full", duration_s=8, warm_up_s=4, path=SHALLOW),
    "overflow": scenario(udp(rate_bps=30_000_000), name="overflow", duration_s=4, warm_up_s=1, path=SHALLOW),
    "loss": scenario(udp(rate_bps=10_000_000), name="loss", duration_s=5, warm_up_s=0, path={**SHALLOW, "loss_ratio": 0.02}),
    "mixed": scenario(tcp("one"), tcp("other", "bbr"), name="mixed", duration_s=10, warm_up_s=4, path=path(rate_bps=20_000_000)),
    "treated": scenario(
        tcp("bulk"),
        udp(rate_bps=8_000_000),
        name="treated",
        duration_s=8,
        warm_up_s=4,
        path={**SHALLOW, "buffer_bdp": 5, "queue": "fq-codel", "police_udp": {"rate_bps": 4_000_000}, "thin_acks": 4},
    ),
    "kernel": scenario(
        udp(rate_bps=30_000_000), name="kernel", duration_s=4, warm_up_s=1, path={**SHALLOW, "emulator": "kernel", "buffer_bdp": 10}
    ),
    "kernel-greedy": scenario(
        tcp("bulk"),
        name="kernel-greedy",
        duration_s=8,
        warm_up_s=4,
        path={**SHALLOW, "emulator": "kernel", "buffer_bdp": 10, "loss_ratio": 0.001},
    ),
    "bursts": scenario(
        name="bursts",
        duration_s=4,
        warm_up_s=0,
        path=SHALLOW,
        probe={
            "bursts": [
                *({"start_s": 0.5 + train * 0.3, "packets": 20} for train in range(TRAINS)),
                {"start_s": 2, "packets": 100, "rate_bps": 10_000_000},
            ]
        },
    ),
    "patterns": scenario(
        udp(rate_bps=4_000_000, start_s=0, pattern={"kind": "on_off", "on_s": 1, "off_s": 2}),
        tcp("wave", start_s=0, pattern={"kind": "on_off", "on_s": 1, "off_s": 1}),
        tcp("files", pattern={"kind": "transfers", "size_bytes_median": 300_000, "pause_s_mean": 0.1}),
        tcp("back", direction="reverse"),
        name="patterns",
        duration_s=7,
        warm_up_s=2,
        path=SHALLOW,
    ),
}


def obstacle() -> str | None:
    if os.geteuid() != 0:
        return "the test bed needs root"
    if not Path("/dev/net/tun").exists():
        return "the test bed needs /dev/net/tun"
    try:
        find_program()
    except CommandUsageError as error:
        return str(error)
    missing = [tool for tool in ("ip", "nsenter", "sysctl", "chrt", "setpriv", "tc", "nft", "ethtool") if shutil.which(tool) is None]
    return f"the test bed needs {missing[0]}" if missing else None


class Run:
    """A recorded run."""

    def __init__(self, of: Scenario, folder: Path) -> None:
        self.scenario = of
        self.folder = folder
        self.manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text())
        self.flows = {flow["name"]: flow for flow in self.manifest["flows"]}

    @property
    def latest_ms(self) -> float:
        """By its own clocks: how late, at most, the emulator wrote a packet, the probe sent a request, or a flow went on or off."""
        late_ms: list[float] = [
            *(self.manifest["emulator"][direction]["write_lateness_us"]["max"] / 1000 for direction in ("ab", "ba")),
            self.manifest["probe"]["send_lateness_ms"]["max"],
            *(1000 * (edge["actual_s"] - edge["planned_s"]) for flow in self.flows.values() for edge in flow["edges"]),
        ]
        return max(late_ms)

    def rows(self, name: str) -> list[list[str]]:
        return [line.split(",") for line in (self.folder / name).read_text().splitlines()[1:]]
