"""The operator's fairness loop without a cluster: its shares and its rounds, over jobs that the bench runs itself."""

from __future__ import annotations

import math
from collections.abc import Mapping

from fairlead.core.fairness.model import Participant
from fairlead.core.fairness.round import RoundInput, RoundMemory, RoundResult, run_round
from fairlead.core.fairness.rules import PolicyRules
from fairlead.handlers.cache import ObjectKey
from fairlead.handlers.fairness.store import ShareStore

LEAST_PAUSE_S = 0.2
"""Between two rounds, as in the operator."""


class Control:
    """Decides the caps. All times are seconds of one clock."""

    def __init__(self, rules: PolicyRules, now_s: float) -> None:
        self._shares = ShareStore(self._wake)
        self.rules, self._memory = rules, RoundMemory()
        self._last_round_s, self._next_round_s = -math.inf, now_s
        self._woken = False

    def due_s(self) -> float:
        """When the next round is."""
        return self._last_round_s + LEAST_PAUSE_S if self._woken else self._next_round_s

    def change_rules(self, rules: PolicyRules) -> None:
        """Another version of the policy."""
        self.rules = rules
        self._wake()

    def note(self, job: Participant, now_s: float) -> None:
        """How a job was found."""
        self._shares.note(_key(job.name), job, now_s)

    def drop(self, name: str, now_s: float) -> None:
        """A job is gone."""
        self._shares.drop(_key(name), now_s)

    def round(self, now_s: float) -> tuple[Mapping[str, int], RoundResult]:
        """One round; the caps in bits per second of the jobs whose cap is new."""
        jobs = tuple(self._shares.jobs().values())
        outcome = run_round(RoundInput(self.rules, jobs, self._shares.meters(), self._shares.interfaces(now_s)), self._memory, now_s)
        self._memory = outcome.memory
        self._last_round_s, self._next_round_s, self._woken = now_s, now_s + outcome.again_seconds, False
        changed = self._shares.publish(outcome.job_shares)
        caps = {uid: outcome.job_shares[uid].cap_bps for uid in changed if uid in outcome.job_shares}
        return {uid: cap_bps for uid, cap_bps in caps.items() if cap_bps is not None}, outcome

    def _wake(self) -> None:
        self._woken = True


def _key(name: str) -> ObjectKey:
    return ObjectKey("", name)
