"""The operator's fairness loop without a cluster: its board and its rounds, over jobs that the bench runs itself."""

from __future__ import annotations

import math
from collections.abc import Mapping

from fairlead.core.fairness.model import Participant
from fairlead.core.fairness.round import Facts, Memory, Outcome, run_round
from fairlead.core.fairness.rules import Rules
from fairlead.handlers.cache import ObjectKey
from fairlead.handlers.fairness.board import Board

LEAST_PAUSE_S = 0.2
"""Between two rounds, as in the operator."""


class Control:
    """Decides the caps. All times are seconds of one clock."""

    def __init__(self, rules: Rules, now_s: float) -> None:
        self._board = Board(self._wake)
        self.rules, self._memory = rules, Memory()
        self._last_round_s, self._next_round_s = -math.inf, now_s
        self._woken = False

    def due_s(self) -> float:
        """When the next round is."""
        return self._last_round_s + LEAST_PAUSE_S if self._woken else self._next_round_s

    def change_rules(self, rules: Rules) -> None:
        """Another version of the policy."""
        self.rules = rules
        self._wake()

    def note(self, job: Participant, now_s: float) -> None:
        """How a job was found."""
        self._board.note(_key(job.name), job, now_s)

    def drop(self, name: str, now_s: float) -> None:
        """A job is gone."""
        self._board.drop(_key(name), now_s)

    def round(self, now_s: float) -> tuple[Mapping[str, int], Outcome]:
        """One round; the caps in bits per second of the jobs whose cap is new."""
        jobs = tuple(self._board.jobs().values())
        outcome = run_round(Facts(self.rules, jobs, self._board.meters(), self._board.interfaces(now_s)), self._memory, now_s)
        self._memory = outcome.memory
        self._last_round_s, self._next_round_s, self._woken = now_s, now_s + outcome.again_seconds, False
        changed = self._board.publish(outcome.standings)
        caps = {uid: outcome.standings[uid].cap_bps for uid in changed if uid in outcome.standings}
        return {uid: cap_bps for uid, cap_bps in caps.items() if cap_bps is not None}, outcome

    def _wake(self) -> None:
        self._woken = True


def _key(name: str) -> ObjectKey:
    return ObjectKey("", name)
