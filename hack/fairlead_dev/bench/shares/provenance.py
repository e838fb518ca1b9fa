"""What a run was made with: runs of other programs are made again, and the file of figures says what it is of."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fairlead_dev.bench.builds import program_digest
from fairlead_dev.bench.digests import advisor_files, digest_of
from fairlead_dev.bench.sealed import commit
from fairlead_dev.bench.shares.plan import OPENED_SEEDS, SCENES, ShareRun
from fairlead_dev.checkout import BINARIES
from fairlead_dev.netlab import pair
from fairlead_dev.wan import emulator, two_hosts

_LAB = (
    *(Path(__file__).with_name(name) for name in ("lab.py", "jobs.py", "quality.py")),
    *(Path(str(module.__file__)) for module in (two_hosts, emulator, pair)),
)
PROGRAMS = ("fairlead-mover", "fairlead-wan")


class Digests:
    """Of what runs depend on, read once: a program that is built anew meanwhile makes itself known at the next call."""

    def __init__(self) -> None:
        self.programs = {name: program_digest(BINARIES / name) for name in PROGRAMS}
        # The installed model lies within the advisor's package.
        self.advisor = digest_of(advisor_files())
        self._common = f"{self.programs} {digest_of(_LAB)}"

    def of(self, run: ShareRun) -> str:
        """Of all that this run depends on, its scene too; the advisor's only where it takes part."""
        parts = (self._common, self.advisor if run.advised else "", asdict(run), asdict(SCENES[run.scene]))
        return hashlib.sha256(repr(parts).encode()).hexdigest()


def set_of(seed: int | None) -> str:
    """What paths of a seed are: `development` without one of the caller's own, or if it has been looked at before; else `sealed`."""
    return "development" if seed is None or seed in OPENED_SEEDS else "sealed"


def about(digests: Digests, drawn: Mapping[str, Any], counts: Mapping[str, Any], good: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The row `about`: which paths (`drawn`), by which programs, on what machines the `good` runs were made, and how much of it."""
    loads = [float(value) for result in good for value in result["load_average"]]
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        **drawn,
        "commit": commit(),
        **{name.removeprefix("fairlead-"): digest[:12] for name, digest in digests.programs.items()},
        "advisor": digests.advisor[:12],
        "machines": dict(Counter(str(result["machine"]) for result in good)),
        **counts,
        "load_most": round(max(loads), 2) if loads else None,
        "busy_share_most": max((float(result["busy_share"]) for result in good), default=None),
    }
