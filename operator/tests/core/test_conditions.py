"""When the transition time of a condition moves, their order, and the length of a message."""

from __future__ import annotations

from job_builders import NOW, seconds

from fairlead.api.reasons import ConditionType
from fairlead.api.shared.fields import LONGEST_MESSAGE
from fairlead.core.conditions import Conditions


class TestConditions:
    def test_the_transition_time_moves_only_when_the_status_flips(self) -> None:
        conditions = Conditions((), generation=1, now=NOW)
        conditions.set(ConditionType.ACCEPTED, "False", "ClaimNotFound", "no claim")
        later = Conditions(conditions.build(), generation=2, now=NOW + seconds(5))
        later.set(ConditionType.ACCEPTED, "False", "NodeNotFound", "no node")
        kept = later.build()[0]
        assert (kept.last_transition_time, kept.reason, kept.observed_generation) == (NOW, "NodeNotFound", 2)
        flipped = Conditions(later.build(), generation=2, now=NOW + seconds(9))
        flipped.set(ConditionType.ACCEPTED, "True", "Valid", "fine")
        assert flipped.build()[0].last_transition_time == NOW + seconds(9)

    def test_changing_its_mind_within_a_pass_leaves_no_trace(self) -> None:
        first = Conditions((), generation=1, now=NOW)
        first.set(ConditionType.SCHEDULED, "False", "NoPortFree", "full")
        again = Conditions(first.build(), generation=1, now=NOW + seconds(5))
        again.set(ConditionType.SCHEDULED, "True", "PodsScheduled", "placed")
        again.set(ConditionType.SCHEDULED, "False", "NoPortFree", "full")
        assert again.build() == first.build()

    def test_order_is_that_of_the_documentation_and_foreign_conditions_stay(self) -> None:
        conditions = Conditions((), generation=1, now=NOW)
        conditions.set(ConditionType.STALLED, "False", "Valid", "")
        conditions.set(ConditionType.ACCEPTED, "True", "Valid", "")
        foreign = conditions.build()[0].model_copy(update={"type": "example.com/Own"})
        mixed = Conditions((foreign, *conditions.build()), generation=1, now=NOW)
        assert [condition.type for condition in mixed.build()] == ["Accepted", "Stalled", "example.com/Own"]

    def test_a_message_has_a_bounded_length(self) -> None:
        conditions = Conditions((), generation=1, now=NOW)
        conditions.set(ConditionType.FAILED, "True", "InternalError", "x" * 5000)
        assert len(conditions.build()[0].message) == LONGEST_MESSAGE
