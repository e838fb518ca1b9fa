"""What of a checkout keeps a sealed set from being measured."""

from pathlib import Path

import pytest

from fairlead_dev.bench.sealed import changed
from fairlead_dev.checkout import CHECKOUT

KEPT = CHECKOUT / "hack" / "wan" / "sealed" / "kept"
PART = "hack/wan/sealed/kept/20270102T000000Z-0a1b2c3d.jsonl"


@pytest.mark.parametrize(
    ("status", "kept", "found"),
    [
        ("", KEPT, ()),
        (f"?? {PART}\n", KEPT, ()),
        (f"?? {PART}\n", None, (PART,)),
        (f" M {PART}\n D {PART}\n", KEPT, (PART, PART)),
        (f"?? {PART}\n M Makefile\n?? hack/wan/sealed/new.py\n", KEPT, ("Makefile", "hack/wan/sealed/new.py")),
    ],
    ids=["nothing", "new-runs", "new-runs-without-the-option", "committed-runs-that-were-changed", "others"],
)
def test_new_files_of_finished_runs_alone_may_be_in_no_commit(status: str, kept: Path | None, found: tuple[str, ...]) -> None:
    assert changed(status, kept) == found
