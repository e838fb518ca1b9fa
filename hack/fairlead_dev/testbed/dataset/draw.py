"""Paths drawn from a specification."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fairlead_dev.testbed.dataset.specification import DrawnPaths, Specification
from fairlead_dev.testbed.scenario.expand import draws
from fairlead_dev.testbed.scenario.model import Path, Policing

_QUANTITIES = ("rtt", "rate", "buffer", "loss", "queue", "police_udp", "thin_acks")


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
        yield f"{prefix}{index:0{width}d}", _path(drawn, {quantity: shares[quantity][index] for quantity in _QUANTITIES})


def _even_shares(count: int, seed: int, purpose: str, quantity: str) -> list[float]:
    """One draw from each of `count` equal parts of 0 to 1, in random order."""
    generator = draws(seed, purpose, quantity)
    shares = [(index + generator.random()) / count for index in range(count)]
    generator.shuffle(shares)
    return shares


def _path(drawn: DrawnPaths, at: Mapping[str, float]) -> Path:
    rate, loss = at["rate"], at["loss"]
    slow_share = 1 - drawn.fast_share
    if drawn.fast_rate_bps is not None and rate >= slow_share:
        rate_bps = drawn.fast_rate_bps.at((rate - slow_share) / drawn.fast_share)
    else:
        rate_bps = drawn.rate_bps.at(rate / slow_share)
    lossless_share = 1 - drawn.loss_share
    loss_ratio = drawn.loss_ratio.at((loss - lossless_share) / drawn.loss_share) if loss >= lossless_share and drawn.loss_share else 0.0
    rtt_ms = round(drawn.rtt_ms.at(at["rtt"]), 1)
    return Path(
        rate_bps=round(rate_bps / 1e5) * 100_000,
        rtt_ms=rtt_ms,
        buffer_bdp=round(max(drawn.buffer_bdp.at(at["buffer"]), drawn.least_full_queue_ms / rtt_ms), 2),
        loss_ratio=float(f"{loss_ratio:.2g}"),
        queue=drawn.queue[int(at["queue"] * len(drawn.queue))],
        police_udp=_policing(drawn, rate_bps, at["police_udp"]),
        thin_acks=drawn.thin_acks[int(at["thin_acks"] * len(drawn.thin_acks))],
        emulator=drawn.emulator,
    )


def _policing(drawn: DrawnPaths, rate_bps: float, share: float) -> Policing | None:
    unpoliced_share = 1 - drawn.police_udp_share
    if drawn.police_udp is None or share < unpoliced_share:
        return None
    held_to = drawn.police_udp.at((share - unpoliced_share) / drawn.police_udp_share)
    return Policing(rate_bps=max(100_000, round(held_to * rate_bps / 1e5) * 100_000))
