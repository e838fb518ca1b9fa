"""`train` and `export`: a model from one's own traces, and a release folder from a trained model."""

import argparse
import importlib.util
import json
import re
import sys
from pathlib import Path

from fairlead_advisor.errors import MissingPackageError, UsageError

_PACKAGES = ("lightgbm", "onnx", "sklearn")
_VERSION = re.compile(r"\d{1,4}\.\d{1,4}\.\d{1,4}")


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds both commands."""
    training = commands.add_parser("train", help="train a model on labelled traces", allow_abbrev=False)
    text = "a data set, or traces and records <path>__<class>__<seed>.csv, .jsonl; may be given several times"
    training.add_argument("--data", default=[], action="append", type=Path, metavar="DIR", help=text)
    text = "a data set of which the tests are trained on too; may be given several times"
    training.add_argument("--whole-data", default=[], action="append", type=Path, metavar="DIR", help=text)
    training.add_argument("--output", required=True, type=Path, metavar="DIR", help="where model, card and report are written")
    training.add_argument("--version", default="0.0.0", metavar="X.Y.Z", help="the model's version (0.0.0)")
    training.add_argument("--seed", type=int, default=1, metavar="N", help="of all random choices (1)")
    training.add_argument(
        "--jobs", type=int, default=1, metavar="N", help="processes that compute features and validate (1); the model does not depend on it"
    )
    training.set_defaults(command=_train)

    exporting = commands.add_parser("export", help="check a trained model and put it into a release folder", allow_abbrev=False)
    exporting.add_argument("trained", type=Path, metavar="DIR", help="what `train` has written")
    exporting.add_argument(
        "--output", required=True, type=Path, metavar="DIR", help="the folder of releases; background-X.Y.Z is made in it"
    )
    exporting.set_defaults(command=_export)


def _train(options: argparse.Namespace) -> None:
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingPackageError(f"training needs {', '.join(missing)}: pip install 'fairlead-advisor[train]'")
    if not options.data and not options.whole_data:
        raise UsageError("--data: name what to train on, or --whole-data")
    if not _VERSION.fullmatch(options.version):
        raise UsageError(f"--version {options.version!r}: must be three numbers like 1.2.0")
    if not 1 <= options.jobs <= 64:
        raise UsageError(f"--jobs {options.jobs}: must be 1 to 64")
    if not 0 <= options.seed < 2**31:
        raise UsageError(f"--seed {options.seed}: must be 0 to {2**31 - 1}")
    from fairlead_advisor.train.run import Order, train  # noqa: PLC0415 - these packages are large

    summary = train(
        Order(options.data, options.output, options.version, whole_data=options.whole_data, seed=options.seed, jobs=options.jobs),
        _tell,
    )
    sys.stdout.write(json.dumps(summary) + "\n")


def _export(options: argparse.Namespace) -> None:
    from fairlead_advisor.models.release import release  # noqa: PLC0415

    sys.stdout.write(json.dumps(release(options.trained, options.output)) + "\n")


def _tell(line: str) -> None:
    sys.stderr.write(line + "\n")
