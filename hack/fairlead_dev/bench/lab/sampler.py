"""A program for one namespace: writes time, received bytes and packets of an interface, every few milliseconds, until it is ended.

Run by `ip netns exec`, because /proc/self/net shows the namespace of the process that reads it.
"""

from __future__ import annotations

import sys
import time

LONGEST_READING_S = 0.001


def main(device: str, interval_s: float) -> None:
    """Prints lines of `monotonic seconds, bytes, packets`."""
    due_s = time.monotonic()
    with open("/proc/self/net/dev", "rb") as counters:  # noqa: PTH123 - read at each turn, so kept open
        while True:
            counters.seek(0)
            before_s = time.monotonic()
            lines = counters.read().decode().splitlines()
            after_s = time.monotonic()
            for line in lines:
                name, _, numbers = line.partition(":")
                # Where something else ran in between, the moment of the reading is not known.
                if name.strip() == device and after_s - before_s < LONGEST_READING_S:
                    received = numbers.split()
                    print(f"{after_s:.6f} {received[0]} {received[1]}", flush=True)
            due_s += interval_s
            time.sleep(max(0.0, due_s - time.monotonic()))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
