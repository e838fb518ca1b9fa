"""For how long an advisor has said nothing beside a sender that transfers."""

from __future__ import annotations

from fairlead.core.model import MoverPod, Progress


class Silences:
    """Remembers, by job, which sender was first seen to transfer without a decision, and when. Forgotten with the operator."""

    def __init__(self) -> None:
        self._since: dict[str, tuple[str, float]] = {}

    def note(self, job_uid: str, sender: MoverPod | None, said: Progress | None, *, decided: bool) -> float:
        """Takes in one look at a running sender (None if there is none) and returns the seconds so far.

        `said` is the mover's answer, `decided` whether the advisor told a decision. A sender that is silent itself accuses nobody.
        """
        if sender is None or decided or (said is not None and not said.flows):
            self._since.pop(job_uid, None)
            return 0.0
        if said is None:
            return 0.0
        known = self._since.get(job_uid)
        if known is None or known[0] != sender.uid:
            known = self._since[job_uid] = sender.uid, said.read_at
        return max(0.0, said.read_at - known[1])
