"""Digests of what runs depend on, by which a run of other programs is not taken for one of these."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import fairlead_advisor

ADVISOR = Path(fairlead_advisor.__file__).parent
_UNSEEN = frozenset({"train", "assess"})
"""Parts of the advisor's package that its sidecar never loads."""


def digest_of(files: Iterable[Path]) -> str:
    """SHA-256 over the files' contents, in that order."""
    whole = hashlib.sha256()
    for file in files:
        with file.open("rb") as opened:
            whole.update(hashlib.file_digest(opened, "sha256").digest())
    return whole.hexdigest()


def advisor_files() -> list[Path]:
    """What the sidecar is made of, with its model."""
    files = (file for file in ADVISOR.rglob("*") if file.suffix in (".py", ".onnx"))
    return sorted(file for file in files if file.relative_to(ADVISOR).parts[0] not in _UNSEEN)
