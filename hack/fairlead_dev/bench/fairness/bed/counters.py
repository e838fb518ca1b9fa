"""A program for one namespace: prints the time and the bytes and packets of every named counter of a table, until it is ended."""

from __future__ import annotations

import json
import subprocess
import sys
import time


def main(table: str, interval_s: float) -> None:
    """Prints lines of `monotonic seconds, then name, bytes and packets of each counter`."""
    due_s = time.monotonic()
    while True:
        done = subprocess.run(["nft", "-j", "list", "counters", "table", "ip", table], capture_output=True, check=True)
        counters = [entry["counter"] for entry in json.loads(done.stdout)["nftables"] if "counter" in entry]
        fields = [f"{counter['name']} {counter['bytes']} {counter['packets']}" for counter in counters]
        print(f"{time.monotonic():.6f}", *fields, flush=True)
        due_s = max(due_s + interval_s, time.monotonic())
        time.sleep(max(0.0, due_s - time.monotonic()))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
