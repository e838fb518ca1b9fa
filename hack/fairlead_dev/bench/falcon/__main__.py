"""Searches for the stream count of a mover beside it, over its control socket, until it is ended; a line of JSON for each sample."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NoReturn, TextIO

from fairlead_dev.bench.falcon.search import SAMPLE_S, SETTLE_S, FalconSample, begin, sample_of, step
from fairlead_dev.clients.http import ask_mover
from fairlead_dev.errors import NoAnswerError

_LOOK_AGAIN_S = 0.05


def main(arguments: Sequence[str]) -> NoReturn:
    """Until it is ended."""
    parser = argparse.ArgumentParser(prog="falcon", description=__doc__)
    parser.add_argument("--control-socket", type=Path, required=True, help="the sending mover's")
    parser.add_argument("--streams-max", type=int, required=True, help="most streams that may be tried")
    parser.add_argument("--record", type=Path, required=True, help="what was measured, a line for each count that was tried")
    options = parser.parse_args(arguments)
    with options.record.open("w", encoding="utf-8") as record:
        search_on(options.control_socket, options.streams_max, record)


def search_on(
    control: Path,
    most_streams: int,
    record: TextIO,
    now_s: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> NoReturn:
    """From the first data on. A mover that does not answer is asked again; LabError if it refuses a count."""
    while not _flows(control):
        sleep(_LOOK_AGAIN_S)
    first_data_s, search = now_s(), begin(most_streams)
    while True:
        try:
            sample = _tried(control, search.streams, now_s, sleep)
        except NoAnswerError:
            sleep(_LOOK_AGAIN_S)
            continue
        utility_mbps = sample.utility_mbps(search.streams)
        told = {"time_s": round(now_s() - first_data_s, 3), "streams": search.streams, **asdict(sample), "utility_mbps": utility_mbps}
        record.write(json.dumps(told) + "\n")
        record.flush()
        search = step(search, utility_mbps)


def _flows(control: Path) -> bool:
    try:
        stats = ask_mover(control, "GET", "/v1/stats")
    except NoAnswerError:
        return False
    return bool(stats["stage"] == "Transferring" and stats["streams"])


def _tried(control: Path, streams: int, now_s: Callable[[], float], sleep: Callable[[float], None]) -> FalconSample:
    began_s = now_s()
    ask_mover(control, "PATCH", "/v1/transport", {"streams": streams})
    sleep(max(0.0, began_s + SETTLE_S - now_s()))
    before, before_s = ask_mover(control, "GET", "/v1/stats"), now_s()
    sleep(max(0.0, began_s + SAMPLE_S - now_s()))
    after, after_s = ask_mover(control, "GET", "/v1/stats"), now_s()
    return sample_of(before, after, after_s - before_s)


if __name__ == "__main__":
    main(sys.argv[1:])
