"""Errors that end a pass over an object, with what a worker does about each."""

from __future__ import annotations

from typing import ClassVar


class ReconcileError(Exception):
    """Ends a pass over an object. The worker acts on these properties alone.

    `kind` is a short constant for metrics. `blame` is who can mend it: `cluster`, `operator` (this program), `administrator`, `owner` (of
    the object) or `nobody` (normal concurrency). `retry`: whether another pass may succeed before the object changes.
    """

    kind: ClassVar[str] = "Internal"
    blame: ClassVar[str] = "operator"
    retry: ClassVar[bool] = True
    is_defect: ClassVar[bool] = False
    """Whether the traceback is wanted: the operator did something that it never should."""

    @classmethod
    def kinds(cls) -> frozenset[str]:
        """Its kind and those of all errors that derive from it, as far as they are imported."""
        return frozenset({cls.kind}).union(*(derived.kinds() for derived in cls.__subclasses__()))

    @property
    def delay_seconds(self) -> float | None:
        """When another pass is wanted; None where the back-off decides."""
        return None


class InvalidResourceError(ReconcileError, ValueError):
    """An object that is not what this version can read. A retry does not help; its owner must change it."""

    kind = "InvalidResource"
    blame = "owner"
    retry = False
