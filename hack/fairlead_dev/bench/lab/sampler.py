"""A program for one namespace: writes time, received bytes and packets of an interface, every few milliseconds, until it is ended.

Run by `ip netns exec`, because /proc/self/net shows the namespace of the process that reads it.
"""

from __future__ import annotations

import sys
import time


def main(device: str, interval_s: float) -> None:
    """Prints lines of `monotonic seconds, bytes, packets`."""
    due_s = time.monotonic()
    with open("/proc/self/net/dev", "rb") as counters:  # noqa: PTH123 - read at each turn, so kept open
        while True:
            counters.seek(0)
            for line in counters.read().decode().splitlines():
                name, _, numbers = line.partition(":")
                if name.strip() == device:
                    received = numbers.split()
                    print(f"{time.monotonic():.6f} {received[0]} {received[1]}", flush=True)
            due_s += interval_s
            time.sleep(max(0.0, due_s - time.monotonic()))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
