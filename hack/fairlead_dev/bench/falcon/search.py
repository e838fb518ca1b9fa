"""Falcon's online gradient descent over the number of streams [Arifuzzaman 2021]. Pure.

Utility, step and settings are those of the authors' own program, which searches in this way unless it is told otherwise: utility and
sample in its `sender.py`, the step in its `search.py` (`gradient_opt_fast`), the settings in its `config_sender.py`. Ours is that the
utility is not rounded to whole Mb/s, which would be some per cent on these paths, that what was sent is counted in bytes and resent
segments, and the most streams that there may be (theirs: 100).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

STREAM_COST = 1.02
"""K: what a further stream must bring."""
LOSS_COST = 10.0
"""B."""
SAMPLE_S, SETTLE_S = 3.0, 1.0
"""Each count is kept for so long, and what it carries in the first second does not count."""
SECOND_STREAMS, FEWEST_STREAMS = 2, 2
"""Where it goes from its first stream; it does not come back to that."""
_REACH_STREAMS = 10
"""It goes no further beyond the best count so far."""
_SEGMENT_BYTES = 1448


@dataclass(frozen=True, slots=True)
class FalconSample:
    """What a count carried while it was tried."""

    goodput_mbps: float
    loss_ratio: float

    def utility_mbps(self, streams: int) -> float:
        """Goodput over K to the power of the streams, less B times what is lost."""
        return self.goodput_mbps / STREAM_COST**streams - LOSS_COST * self.loss_ratio * self.goodput_mbps


@dataclass(frozen=True, slots=True)
class FalconSearch:
    """Where the search is. `streams` are to be tried next; `before` is the last count that was, with its utility in Mb/s.

    `same_way` is how many steps in a row went up, or as a negative number down: each is longer by as much.
    """

    most_streams: int
    limit_streams: int
    streams: int = 1
    before: tuple[int, float] | None = None
    same_way: int = 0
    best_mbps: float = 0.0


def begin(most_streams: int) -> FalconSearch:
    """With one stream, and at most so many."""
    return FalconSearch(most_streams, limit_streams=most_streams)


def step(search: FalconSearch, utility_mbps: float) -> FalconSearch:
    """After the utility of `search.streams` was measured."""
    if utility_mbps > search.best_mbps:
        search = replace(search, best_mbps=utility_mbps, limit_streams=min(search.streams + _REACH_STREAMS, search.most_streams))
    tried = (search.streams, utility_mbps)
    if search.before is None:
        return replace(search, streams=min(SECOND_STREAMS, search.most_streams), before=tried)
    streams_before, before_mbps = search.before
    apart = search.streams - streams_before
    # Where the count stayed as it was, a gain is for them a reason to go down.
    slope_mbps = (utility_mbps - before_mbps) * (1 if apart > 0 else -1) / max(1, abs(apart))
    way = -1 if slope_mbps < 0 else 1
    same_way = search.same_way + way if search.same_way * way >= 0 else way
    change = abs(slope_mbps / before_mbps) if before_mbps else abs(slope_mbps)
    wanted = search.streams + same_way * math.ceil(search.streams * change)
    return replace(search, streams=min(max(wanted, FEWEST_STREAMS), search.limit_streams), before=tried, same_way=same_way)


def sample_of(before: Mapping[str, Any], after: Mapping[str, Any], seconds: float) -> FalconSample:
    """What the streams have carried and lost between two answers of the mover; one that is new counts from zero."""
    known = {stream["id"]: stream for stream in before["streams"]}
    carried_bytes = resent_segments = 0
    for stream in after["streams"]:
        old = known.get(stream["id"])
        carried_bytes += _grown(old, stream, "bytes_sent")
        resent_segments += _grown(old, stream, "retransmits")
    segments = carried_bytes / _SEGMENT_BYTES + resent_segments
    # As the authors have it, a sample of nothing but retransmissions has no loss: it has no goodput either.
    loss_ratio = resent_segments / segments if carried_bytes else 0.0
    return FalconSample(carried_bytes * 8e-6 / seconds, loss_ratio)


def _grown(before: Mapping[str, Any] | None, after: Mapping[str, Any], name: str) -> int:
    was, now = int((before or {}).get(name) or 0), int(after[name] or 0)
    return now - was if now >= was else now
