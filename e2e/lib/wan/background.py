"""Other people's traffic on a link."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.lib.waiting import wait_until
from e2e.lib.wan.connections import Connection, busiest, listens
from e2e.lib.wan.link import Link
from fairlead_dev.errors import LabError
from fairlead_dev.netlab.processes import Process, running

PORT = 5201
LONGEST_S = 3600
FLOWING_BYTES = 1_000_000


@contextmanager
def flow(link: Link, congestion_control: str, folder: Path) -> Iterator[None]:
    """A greedy TCP flow in the link's direction until the block is left, which is entered once the kernel shows that it carries data.

    Raises LabError where it does not. `folder` has iperf3's words.
    """
    serve = ("iperf3", "--server", "--one-off", "--bind", link.destination_address, "--port", str(PORT))
    ends = ("--client", link.destination_address, "--bind", link.source_address, "--port", str(PORT))
    send = ("iperf3", *ends, "--congestion", congestion_control, "--time", str(LONGEST_S), "--interval", "0")
    log, server_log = folder / f"{congestion_control}-flow.log", folder / f"{congestion_control}-flow-server.log"
    with running(Process(("nsenter", f"--net={link.destination}", "--", *serve), log=server_log)) as server:
        wait_until(lambda: not server.is_running or listens(link.destination, PORT), "iperf3's server listens")
        with running(Process(("nsenter", f"--net={link.source}", "--", *send), log=log)) as client:

            def flowing() -> Connection | None:
                # Whatever ends the server ends the client.
                if not client.is_running:
                    raise LabError(f"iperf3 ended{client.log_tail()}; its server{server.log_tail()}")
                seen = busiest(link.source, link.destination_address, PORT)
                return seen if seen and seen.acknowledged_bytes >= FLOWING_BYTES else None

            carrying = wait_until(flowing, "the flow carries data")
            if carrying.congestion_control != congestion_control:
                raise LabError(f"the flow runs by {carrying.congestion_control} instead of {congestion_control}")
            yield
