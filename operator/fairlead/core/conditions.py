"""Conditions as Kubernetes wants them: one per type, a transition time that moves only when the status flips."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum

from fairlead.api.reasons import ConditionType
from fairlead.api.shared.fields import LONGEST_MESSAGE, Condition, ConditionStatus


class Conditions:
    """The conditions of one object while a pass works on them. `kinds` are those that the operator sets, in their order."""

    def __init__(self, present: Iterable[Condition], *, generation: int, now: datetime, kinds: type[StrEnum] = ConditionType) -> None:
        self._before = {condition.type: condition for condition in present}
        self._by_type = dict(self._before)
        self._generation = generation
        self._now = now
        self._order = {kind.value: position for position, kind in enumerate(kinds)}

    def set(self, kind: StrEnum, status: ConditionStatus, reason: str, message: str) -> None:
        """Sets a condition; its transition time stays unless `status` differs from before the pass. The last call counts."""
        before = self._before.get(kind.value)
        self._by_type[kind.value] = Condition(
            type=kind.value,
            status=status,
            reason=str(reason),
            message=shorten(message),
            last_transition_time=self._now if before is None or before.status != status else before.last_transition_time,
            observed_generation=self._generation,
        )

    def remove(self, kind: StrEnum) -> None:
        """Forgets a condition that does not apply."""
        self._by_type.pop(kind.value, None)

    def get(self, kind: StrEnum) -> Condition | None:
        """The condition of that type, None if it is not set."""
        return self._by_type.get(kind.value)

    def is_true(self, kind: StrEnum) -> bool:
        """Whether the condition of that type is True."""
        condition = self.get(kind)
        return condition is not None and condition.status == "True"

    def build(self) -> tuple[Condition, ...]:
        """All conditions, those of Fairlead first and in the order of their documentation."""
        return tuple(
            sorted(self._by_type.values(), key=lambda condition: (self._order.get(condition.type, len(self._order)), condition.type))
        )


def shorten(message: str, most: int = LONGEST_MESSAGE) -> str:
    """`message` cut to `most` characters, with a mark where it was cut."""
    return message if len(message) <= most else f"{message[: most - 1]}…"
