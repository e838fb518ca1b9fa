"""Paths drawn from a specification."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fairlead_dev.testbed.dataset.specification import DrawnPaths, Specification
from fairlead_dev.testbed.scenario.expand import draws
from fairlead_dev.testbed.scenario.model import Path

_QUANTITIES = ("rtt", "rate", "buffer", "loss")


@dataclass(frozen=True, slots=True)
class DatasetPath:
    """A path of the data set; `unseen` ones are in no training run, `training_only` ones in nothing else."""

    id: str
    path: Path
    unseen: bool
    training_only: bool = False


def draw_paths(specification: Specification) -> tuple[DatasetPath, ...]:
    """The drawn paths, known and unseen mixed over the whole range, then those for training alone; always the same for a specification."""
    drawn, seed = specification.drawn_paths, specification.seed
    count = drawn.known + drawn.unseen
    # A path is unseen by a draw of its own, so that unseen paths are no corner of the range.
    order = list(range(count))
    draws(seed, "unseen").shuffle(order)
    unseen = set(order[: drawn.unseen])
    both = [
        DatasetPath(name, path, index in unseen) for index, (name, path) in enumerate(even_paths(drawn, count, seed, "paths", drawn.prefix))
    ]
    training = even_paths(drawn, drawn.training_only, seed, "training paths", "t")
    return (*both, *(DatasetPath(name, path, unseen=False, training_only=True) for name, path in training))


def even_paths(drawn: DrawnPaths, count: int, seed: int, purpose: str, prefix: str) -> Iterator[tuple[str, Path]]:
    """So many paths with their names, over which each quantity is covered evenly (a Latin hypercube)."""
    shares = {quantity: _even_shares(count, seed, purpose, quantity) for quantity in _QUANTITIES}
    width = len(str(max(1, count - 1)))
    for index in range(count):
        yield f"{prefix}{index:0{width}d}", _path(drawn, *(shares[quantity][index] for quantity in _QUANTITIES))


def _even_shares(count: int, seed: int, purpose: str, quantity: str) -> list[float]:
    """One draw from each of `count` equal parts of 0 to 1, in random order."""
    generator = draws(seed, purpose, quantity)
    shares = [(index + generator.random()) / count for index in range(count)]
    generator.shuffle(shares)
    return shares


def _path(drawn: DrawnPaths, rtt: float, rate: float, buffer: float, loss: float) -> Path:
    slow_share = 1 - drawn.fast_share
    if drawn.fast_rate_bps is not None and rate >= slow_share:
        rate_bps = drawn.fast_rate_bps.at((rate - slow_share) / drawn.fast_share)
    else:
        rate_bps = drawn.rate_bps.at(rate / slow_share)
    lossless_share = 1 - drawn.loss_share
    loss_ratio = drawn.loss_ratio.at((loss - lossless_share) / drawn.loss_share) if loss >= lossless_share and drawn.loss_share else 0.0
    rtt_ms = round(drawn.rtt_ms.at(rtt), 1)
    return Path(
        rate_bps=round(rate_bps / 1e5) * 100_000,
        rtt_ms=rtt_ms,
        buffer_bdp=round(max(drawn.buffer_bdp.at(buffer), drawn.least_full_queue_ms / rtt_ms), 2),
        loss_ratio=float(f"{loss_ratio:.2g}"),
    )
