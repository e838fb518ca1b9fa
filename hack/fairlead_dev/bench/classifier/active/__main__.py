"""Prints what active probing adds and writes build/bench/active.json: python -m fairlead_dev.bench.classifier.active."""

import argparse
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np

from fairlead_advisor.models.store import find_model
from fairlead_advisor.train.data import ACTIVE, TRAIN, load_dataset
from fairlead_dev.bench.classifier.active import bursts, profile, rate
from fairlead_dev.bench.rows import write
from fairlead_dev.bench.runner import BenchCommand

SEEDS = (1, 2, 3)


def add_options(parser: argparse.ArgumentParser) -> None:
    """The data and the model."""
    parser.add_argument("--data", type=Path, required=True, help="a packed data set with recordings under the paper's profile")
    parser.add_argument("--bursts", type=Path, required=True, help="a packed data set with bursts")
    parser.add_argument("--model", type=Path, help="the first step (default: the installed model)")
    parser.add_argument("--jobs", type=int, default=2)


def run(options: argparse.Namespace) -> int:
    """Measures, prints and writes."""
    rows = []
    dataset, model = load_dataset(options.data), find_model(options.model)
    active = dataset.of_split(ACTIVE)
    paths = {one.path for one in active}
    passive = [one for one in dataset.runs if one.path in paths and one.split in (TRAIN, "test_seeds")]
    print(f"{'5-fold by recording, ' + ', '.join(sorted(paths)):44} {'macro F1':>16} {'any BBR':>16}")
    for result in profile.compare(passive, active, SEEDS):
        print(f"{result.name:44} {_with_spread(result)}", flush=True)
        rows.append(asdict(result) | {"name": f"profile, {result.name}"})
    looks = bursts.look(options.bursts, model)
    print(f"\n{f'leaving paths out, {len(looks.truth)} cycles':60} {'macro F1':>16} {'any BBR':>16}")
    error = looks.rate_errors()
    off = ", ".join(f"{np.nanquantile(error, share):.1%}" for share in (0.5, 0.95))
    print(f"trains told the rate in {np.isfinite(error).mean():.0%} of the cycles, and missed it by {off} (median, 95th percentile)")
    without, rated = rate.answers(dataset.of_split(TRAIN), looks, SEEDS, options.jobs)
    by_rate = {"passive 10 s": without, "passive 10 s, trains": rated}
    for step in bursts.compare(looks, by_rate):
        print(f"{step.name + ', ' + step.learner:60} {_with_spread(step)}", flush=True)
        rows.append(asdict(step) | {"name": f"bursts, {step.name}, {step.learner}"})
    write(rows, options.output)
    return 0


def _with_spread(result: profile.ProfileResult | bursts.BurstResult) -> str:
    return f"{result.macro_f1:8.3f} ±{result.macro_f1_spread:6.3f} {result.any_bbr:8.3f} ±{result.any_bbr_spread:6.3f}"


BENCH = BenchCommand("active", __doc__, add_options, run)

if __name__ == "__main__":
    sys.exit(BENCH.main())
