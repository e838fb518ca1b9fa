"""The fairness loop: one worker, one key, a round every few seconds while a policy exists, and at once when something happens."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from fairlead.api.fairnesspolicy import FairnessPolicy, FairnessPolicyStatus
from fairlead.api.reasons import PolicyReason
from fairlead.api.shared.errors import InvalidResourceError
from fairlead.api.transferjob import TransferJob
from fairlead.core.allocation import AllocationInputError
from fairlead.core.fairness.meter import Meter
from fairlead.core.fairness.participant import participant_of
from fairlead.core.fairness.round import ROUND_SECONDS, RoundInput, RoundMemory, RoundResult, run_round
from fairlead.core.fairness.rules import Candidate, InterfaceKey, InvalidPolicyError, PolicyRules, choose, read_candidate, read_rules
from fairlead.core.fairness.summary import accepted_status, is_worth_writing, refused_status, was_in_force
from fairlead.core.observed import Observed
from fairlead.handlers.cache import Cache, ObjectKey
from fairlead.handlers.fairness.metrics import FairnessMetrics
from fairlead.handlers.fairness.store import ShareStore
from fairlead.handlers.paths.store import PathStore
from fairlead.handlers.port_ledger import JobUid
from fairlead.handlers.queue import Timers, WorkQueue
from fairlead.handlers.worker import ErrorPolicy, Worker
from fairlead.kube.apply import merge_difference
from fairlead.kube.client import POLICIES, KubeClient
from fairlead.kube.errors import KubeError

KEY = "fairness"
LEAST_PAUSE_SECONDS = 0.2
"""Between two rounds: a burst of arrivals is one."""
WARM_UP_SECONDS = 60.0
"""How long the first round after a start waits until the workers have reconciled every job, and for a list of the paths."""
WARM_UP_LOOK_SECONDS = 0.3

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _InForce:
    """The rules that hold. `problem` is why they are those of an earlier version of the policy, empty if they are not."""

    rules: PolicyRules
    problem: str


@dataclass(frozen=True, slots=True)
class _Good:
    """The last version of a policy that could be put in force, and its rules as the last round had them."""

    policy: FairnessPolicy
    rules: PolicyRules


class TrafficSource(Protocol):
    """What reads all traffic of interfaces and belongs to no tenant."""

    def want(self, nodes: frozenset[str]) -> None:
        """From now on these nodes' interfaces are to be read."""

    def meters(self, now: float) -> Mapping[InterfaceKey, Meter]:
        """What was read lately."""


class FairnessLoop:
    """Runs rounds and publishes the shares; writes the status of policies and nothing else."""

    def __init__(
        self,
        *,
        cache: Cache,
        shares: ShareStore,
        paths: PathStore,
        jobs: WorkQueue[ObjectKey],
        client: KubeClient,
        metrics: FairnessMetrics,
        timers: Timers,
        now: Callable[[], datetime],
        agents: TrafficSource | None = None,
    ) -> None:
        self._cache = cache
        self._agents = agents
        self._shares = shares
        self._paths = paths
        self._jobs = jobs
        self._client = client
        self._metrics = metrics
        self._timers = timers
        self._now = now
        self._queue: WorkQueue[str] = WorkQueue(timers)
        errors: ErrorPolicy[str] = ErrorPolicy(str, self._count, self._remember)
        busy_with = "the fairness loop has been busy with one round"
        self.worker = Worker("fairness loop", self._queue, self._reconcile, errors, busy_with=busy_with)
        self._memory = RoundMemory()
        self._last_good: _Good | None = None
        self._last_round = -LEAST_PAUSE_SECONDS
        self._began = timers.time()
        self._warm = False
        self._written: dict[str, datetime] = {}

    def begin(self) -> None:
        """To be called when rounds may begin: the first one waits for the workers, who begin now."""
        self._began = self._timers.time()

    def wake(self) -> None:
        """Asks for a round soon. Without a policy, and with none to let go of, there is nothing to do."""
        if len(self._cache.policies) or self._last_good is not None or self._warm:
            self._queue.add_after(KEY, self._last_round + LEAST_PAUSE_SECONDS - self._timers.time())

    async def _reconcile(self, _: str) -> timedelta | None:
        again_seconds = await self.round()
        return None if again_seconds is None else timedelta(seconds=again_seconds)

    def _count(self, kind: str) -> None:
        self._metrics.count_error(kind)

    async def _remember(self, _: str, error: Exception) -> None:
        """After a defect, sharing must not stop transfers: caps stay as they are, and new jobs start as without a policy."""
        if not isinstance(error, KubeError):
            self._shares.freeze(starts=True)

    async def round(self) -> float | None:
        """One round; returns after how many seconds the next one is due, None without a policy. Raises KubeError."""
        candidates = [read_candidate(body) for body in self._cache.policies.values()]
        self._last_round = self._timers.time()
        chosen = choose(candidates)
        if chosen is None:
            self._let_go()
            return None
        if not self._is_warm(chosen):
            self._shares.freeze(starts=False)
            return WARM_UP_LOOK_SECONDS
        in_force, problem = self._rules_of(chosen)
        outcome: RoundResult | None = None
        if in_force is not None:
            outcome, problem = await self._share(in_force)
        if outcome is None:
            statuses = [(chosen, self._refuse(chosen, problem, forgotten=in_force is None and was_in_force(chosen.status)))]
        else:
            assert in_force is not None
            statuses = [(chosen, accepted_status(chosen, in_force.rules, outcome, in_force.problem, self._now()))]
            self._requeue(self._shares.publish(outcome.job_shares, in_force.rules.open_bps(outcome.available_bps)))
        older = f"policy {chosen.metadata.name} is older and in force: delete one of them, or merge them into one"
        for candidate in candidates:
            if candidate.metadata.uid != chosen.metadata.uid:
                statuses.append((candidate, refused_status(candidate, PolicyReason.OTHER_POLICY_IN_FORCE, older, self._now())))
        await self._write(statuses)
        return outcome.again_seconds if outcome is not None else ROUND_SECONDS

    def _refuse(self, chosen: Candidate, problem: str, *, forgotten: bool) -> FairnessPolicyStatus:
        """Leaves caps as they are. `forgotten`: an earlier version of the policy was in force, and what it said is not known any more."""
        self._shares.freeze(starts=not forgotten)
        reason, message = PolicyReason.INVALID_SPEC, f"{problem}; caps stay as they are"
        if forgotten:
            reason = PolicyReason.LAST_GOOD_UNKNOWN
            message = f"{message} and no job starts, as the last good version was lost in a restart: correct the policy, or delete it"
        return refused_status(chosen, reason, message, self._now())

    def _let_go(self) -> None:
        """There is no policy any more: every job has its own limit alone, or none."""
        self._memory, self._last_good, self._warm = RoundMemory(), None, False
        self._began = self._timers.time()
        self._metrics.show(None, None)
        if self._agents is not None:
            self._agents.want(frozenset())
        self._requeue(self._shares.publish(None))

    def _is_warm(self, chosen: Candidate) -> bool:
        """Whether every job was reconciled since the start and all paths listed: shares among some would let those send too much."""
        if not self._warm:
            late = self._timers.time() - self._began >= WARM_UP_SECONDS
            links = chosen.policy.spec.links if chosen.policy is not None else ()
            paths_known = self._paths.listed or all(link.network_path is None for link in links)
            self._warm = late or (paths_known and self._shares.seen().issuperset(self._cache.jobs.keys()))
            if self._warm:
                self._note_unseen()
        return self._warm

    def _note_unseen(self) -> None:
        """Counts the jobs that no worker has reconciled yet with what their status says: their movers send all the same."""
        now, seen = self._now().timestamp(), self._shares.seen()
        for key, known in list(self._cache.jobs.items()):
            if key in seen:
                continue
            try:
                job = TransferJob.from_object(known.body())
            except InvalidResourceError as error:
                logger.warning("TransferJob %s/%s cannot be counted on the links: %s", key.namespace, key.name, error)
                continue
            observed = Observed(job=job, pods=tuple(self._cache.pods_of(JobUid(key.namespace, job.metadata.uid))))
            self._shares.note(key, participant_of(observed, asks=False, now=now), now)

    def _rules_of(self, chosen: Candidate) -> tuple[_InForce | None, str]:
        """The rules of the policy, or of its last good version; None and the problem if there is no good one."""
        namespaces, paths = self._cache.namespace_labels(), self._paths.paths()
        good = self._last_good
        if good is not None and good.policy.metadata.uid != chosen.metadata.uid:
            good = None
        before = None if good is None else good.rules
        problem = chosen.problem
        if chosen.policy is not None:
            try:
                rules = read_rules(chosen.policy, namespaces, paths, before)
            except InvalidPolicyError as error:
                problem = str(error)
            else:
                self._last_good = _Good(chosen.policy, rules)
                return _InForce(rules, ""), ""
        if good is None:
            return None, problem
        self._last_good = _Good(good.policy, read_rules(good.policy, namespaces, paths, before))
        return _InForce(self._last_good.rules, problem), problem

    async def _share(self, in_force: _InForce) -> tuple[RoundResult | None, str]:
        now = self._now().timestamp()
        facts = RoundInput(
            in_force.rules,
            tuple(self._shares.jobs().values()),
            self._shares.meters(),
            self._shares.interfaces(now),
            self._seen_by_agents(in_force.rules, now),
        )
        try:
            with self._metrics.round_seconds.time():
                # A thousand jobs take a tenth of a second, and a dense network far longer: the event loop must not wait for it.
                outcome = await asyncio.to_thread(run_round, facts, self._memory, now)
        except AllocationInputError as error:
            return None, str(error)
        self._memory = outcome.memory
        self._metrics.show(in_force.rules, outcome)
        return outcome, ""

    def _seen_by_agents(self, rules: PolicyRules, now: float) -> Mapping[InterfaceKey, Meter]:
        if self._agents is None:
            return {}
        self._agents.want(frozenset(node for link in rules.links.values() for node, _, _ in link.interfaces))
        return self._agents.meters(now)

    def _requeue(self, uids: frozenset[str]) -> None:
        urgent = self._shares.urgent
        for key, job in self._shares.jobs().items():
            if job.uid in urgent:
                self._jobs.add_first(key)
            elif job.uid in uids:
                self._jobs.add(key)

    async def _write(self, statuses: Iterable[tuple[Candidate, FairnessPolicyStatus]]) -> None:
        for candidate, status in statuses:
            metadata = candidate.metadata
            last = self._written.get(metadata.uid)
            since = None if last is None else self._now() - last
            if not is_worth_writing(candidate.status, status, since):
                continue
            body = self._cache.policies.get(ObjectKey("", metadata.name))
            difference = merge_difference((body or {}).get("status") or {}, status.to_object())
            if not difference:
                continue
            patch = {"metadata": {"resourceVersion": metadata.resource_version}, "status": difference}
            written = await self._client.merge_patch(POLICIES, None, metadata.name, patch, subresource="status")
            self._cache.put_policy(written)
            self._written[metadata.uid] = self._now()
