"""What holds each sender of the node: a program at its control group, else a rule for its network class, else one for its receiver."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from fairlead.guard.cgroups import NetworkClasses
from fairlead.guard.programs import CgroupPrograms, Dropped
from fairlead.guard.ruleset import Chains, HeldSender, NetworkClass, NoRuleError, chains_of, difference, rule_of, ruleset
from fairlead.guard.senders import Sender

RETRY_SECONDS = 5.0
"""Rules that were refused are tried again so long after: holds are applied many times a second while a pod starts."""

logger = logging.getLogger(__name__)


class RulesRefusedError(Exception):
    """The kernel or `nft` would not take the rules. The node's administrator is to blame; the message has what `nft` printed."""


class HeldBy(StrEnum):
    """What holds a sender. All but `ControlGroup` and `NetworkClass` leave it a way past its cap."""

    CONTROL_GROUP = "ControlGroup"
    """A program drops what any process of the pod sends above the cap."""
    NETWORK_CLASS = "NetworkClass"
    """A rule of nftables does, up to two seconds' worth at once."""
    RECEIVER = "Receiver"
    """A rule of nftables holds what is sent to its receiver, and nothing else that the pod sends."""
    NOTHING_YET = "NothingYet"
    """The pod has no control group, and so no process."""
    NOTHING = "Nothing"


@dataclass(frozen=True, slots=True)
class Hold:
    """How a sender is held now."""

    sender: Sender
    cap_bps: int
    by: HeldBy
    why: str = ""
    """Why by nothing better."""
    rule: HeldSender | None = None


@dataclass(frozen=True, slots=True)
class _Refusal:
    """Rules that were refused while `installed` were in force, and why which pods are not held for it."""

    chains: Chains
    installed: Chains | None
    reasons: Mapping[str, str]
    until: float


class Holds:
    """Puts caps in force and keeps them there. One sender that cannot be held leaves the others as they are."""

    def __init__(
        self,
        *,
        programs: CgroupPrograms | None,
        classes: NetworkClasses | None,
        install: Callable[[str], Awaitable[None]],
        check: Callable[[str], Awaitable[None]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`install` gives a script to `nft`, `check` only asks whether it would take it; both raise RulesRefusedError."""
        self._programs, self._classes, self._install, self._check = programs, classes, install, check
        self._clock = clock
        self._installed: Chains | None = None
        self._refusal: _Refusal | None = None
        self.now: Mapping[str, Hold] = {}
        """By the pods' UIDs."""
        self.refusals = 0
        """How often the kernel took none of the rules; it keeps the last good ones then."""

    @property
    def is_waiting(self) -> bool:
        """Whether a control group has yet to appear."""
        return any(hold.by is HeldBy.NOTHING_YET for hold in self.now.values())

    async def apply(self, caps: Sequence[tuple[Sender, int | None]]) -> None:
        """Holds each sender to its cap in bit/s, and lets those without a cap send. A refusal raises nothing."""
        # First of all: what one sender lets go may be what another one gets.
        for sender in (sender for sender, cap_bps in caps if cap_bps is None):
            self._release(sender)
        holds = {sender.uid: self._hold(sender, cap_bps) for sender, cap_bps in caps if cap_bps is not None}
        holds |= await self._install_rules([hold for hold in holds.values() if hold.rule is not None])
        for uid, hold in holds.items():
            before = self.now.get(uid)
            if before is None or (before.by, before.why) != (hold.by, hold.why):
                _log(hold)
        if self._classes is not None:
            self._classes.keep({sender.uid for sender, _ in caps})
        self.now = holds

    def renew(self) -> None:
        """To be called at least every minute: programs that nobody renews let go."""
        if self._programs is not None:
            self._programs.renew()

    def dropped(self, uid: str) -> Dropped:
        """What the program of a pod has dropped."""
        return self._programs.dropped(uid) if self._programs is not None else Dropped(0, 0)

    def _release(self, sender: Sender) -> None:
        if self._programs is not None:
            try:
                self._programs.release(sender.uid)
            except OSError as error:
                logger.error("%s has no cap any more and is still held: %s", sender, error)
        if self._classes is not None:
            try:
                self._classes.release(sender.uid)
            except OSError as error:
                logger.error("%s has no cap any more and keeps its network class: %s", sender, error)

    def _hold(self, sender: Sender, cap_bps: int) -> Hold:
        why = "this node has no control groups of version 2, or its kernel takes no programs for them"
        if self._programs is not None:
            try:
                if self._programs.hold(sender.uid, cap_bps):
                    return Hold(sender, cap_bps, HeldBy.CONTROL_GROUP)
                why = "its control group is not where kubelets make them"
            except OSError as error:
                why = f"no program can be put at its control group: {error}"
            else:
                if not sender.has_started:
                    return Hold(sender, cap_bps, HeldBy.NOTHING_YET)
        number = self._class_of(sender)
        if number is not None:
            return _by_rule(Hold(sender, cap_bps, HeldBy.NETWORK_CLASS, why, HeldSender(NetworkClass(number), cap_bps)))
        if sender.receiver is None:
            return Hold(sender, cap_bps, HeldBy.NOTHING, f"{why}; it names no receiver")
        return _by_rule(Hold(sender, cap_bps, HeldBy.RECEIVER, why, HeldSender(sender.receiver, cap_bps)))

    def _class_of(self, sender: Sender) -> int | None:
        if self._classes is None:
            return None
        try:
            return self._classes.mark(sender.uid)
        except OSError as error:
            logger.error("%s cannot be given a network class: %s", sender, error)
            return None

    async def _install_rules(self, held: list[Hold]) -> dict[str, Hold]:
        """Those that are not held, as nft takes no rule of theirs."""
        chains = _chains(held)
        if chains == self._installed:
            return {}
        known = self._refusal
        if known is None or (known.chains, known.installed) != (chains, self._installed) or self._clock() >= known.until:
            reasons = await self._reasons(chains, held)
            known = self._refusal = _Refusal(chains, self._installed, reasons, self._clock() + RETRY_SECONDS)
        return {hold.sender.uid: _unheld(hold, known.reasons[hold.sender.uid]) for hold in held if hold.sender.uid in known.reasons}

    async def _reasons(self, chains: Chains, held: list[Hold]) -> dict[str, str]:
        """Installs the rules, or those of them that nft takes; why the other pods are not held."""
        try:
            await self._put(chains)
        except RulesRefusedError as error:
            refused = {hold.sender.uid: text for hold in held if (text := await self._refused(hold))}
            if refused and len(refused) < len(held):
                rest = [hold for hold in held if hold.sender.uid not in refused]
                return refused | (await self._reasons(_chains(rest), rest))
            self.refusals += 1
            logger.error("the rules of before stay: %s", error)
            in_force = {rule for rules in (self._installed or {}).values() for rule in rules}
            return {hold.sender.uid: str(error) for hold in held if hold.rule and rule_of(hold.rule) not in in_force}
        return {}

    async def _put(self, chains: Chains) -> None:
        """What an earlier guard left is replaced as a whole, and so is a table that somebody else has taken away."""
        try:
            await self._install(difference(self._installed, chains) if self._installed else ruleset(chains))
        except RulesRefusedError:
            if not self._installed:
                raise
            await self._install(ruleset(chains))
        self._installed = chains

    async def _refused(self, hold: Hold) -> str:
        try:
            await self._check(ruleset(_chains([hold])))
        except RulesRefusedError as error:
            return str(error)
        return ""


def _chains(held: list[Hold]) -> Chains:
    return chains_of(hold.rule for hold in held if hold.rule is not None)


def _by_rule(hold: Hold) -> Hold:
    assert hold.rule is not None
    try:
        rule_of(hold.rule)
    except NoRuleError as error:
        return _unheld(hold, str(error))
    return hold


def _unheld(hold: Hold, reason: str) -> Hold:
    return Hold(hold.sender, hold.cap_bps, HeldBy.NOTHING, f"{hold.why}; {reason}")


def _log(hold: Hold) -> None:
    if hold.by is HeldBy.NOTHING:
        logger.error("%s is not held to its cap: %s", hold.sender, hold.why)
    elif hold.why:
        logger.warning("%s is held by %s only: %s", hold.sender, hold.by, hold.why)
    elif hold.by is HeldBy.CONTROL_GROUP:
        logger.info("%s is held to %d bit/s", hold.sender, hold.cap_bps)
