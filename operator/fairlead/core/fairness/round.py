"""One round of the fairness loop: from the rules, the jobs and their counters to admissions and caps."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fairlead.api.reasons import Reason
from fairlead.api.shared.quantity import format_rate_rounded
from fairlead.core.allocation import Allocation
from fairlead.core.fairness.admission import admit, least_bps
from fairlead.core.fairness.bounds import bounds_of
from fairlead.core.fairness.demand import Demand, JobUsage
from fairlead.core.fairness.foreign import Estimate, ForeignTraffic, LinkClaims, claims_of, estimate_of, exceeds
from fairlead.core.fairness.lanes import gather, job_uid, lane_uid, spread
from fairlead.core.fairness.meter import KEPT_SECONDS, CounterReading, Meter
from fairlead.core.fairness.model import Admission, Admissions, Bound, Contact, JobShare, JobStage, Participant
from fairlead.core.fairness.rules import InterfaceKey, LinkRule, PolicyRules
from fairlead.core.fairness.settle import OBEYED_SECONDS, Cap, Room, rounded_down, settle
from fairlead.core.fairness.shares import ceiling_bps, fair_shares

ROUND_SECONDS = 5.0
"""The time between two rounds while nothing happens; also over what a rate is measured."""
_RECENT_SECONDS = ROUND_SECONDS - 1.0
"""Jobs are read at times of their own: the reading nearest to a round ago may be a little younger. Where they are read more rarely, a rate
is that between their last two readings, and stays known until the next one."""

HOLD_SECONDS = 120.0
"""For how long a job that has started holds what it was promised while it uses nothing of it. A start takes some seconds, and pods that
never start must not keep others of their tenant out."""
_USES_PART = 0.01
"""A job that uses less than this part of its guarantee uses nothing of it."""

_LIMIT_REACHED = 0.995
"""The caps of lanes that sum up to this part of the job's limit are bounded by it: each is rounded down."""

_BITS = 8


@dataclass(frozen=True, slots=True)
class JobFlow:
    """What a job was measured to send through which interfaces. `until` is when it stopped, None while it goes on."""

    interfaces: frozenset[InterfaceKey]
    meter: Meter
    until: float | None = None
    cap_bps: float = math.inf
    """Its cap when it was last read."""
    least_cap_bps: float = math.inf
    """The lower of its caps when it was last read and at the reading before. What it used in between tells nothing of a higher one."""
    unread_bps: float | None = None
    """What it may have sent at since it was last read; None for what it sent at before."""

    def mean_bps(self, begin: float, end: float) -> float:
        """Its mean rate between two moments, as far as it lasted."""
        return self.meter.mean_bps(begin, end, self.until, self.unread_bps)

    def under(self, cap: Cap, before: JobFlow | None, now: float) -> JobFlow:
        """With what follows from its cap now, and from its flow in the round before."""
        if before is not None and before.meter.samples[-1:] == self.meter.samples[-1:]:
            caps = before.cap_bps, before.least_cap_bps
        else:
            caps = cap.bps, cap.bps if before is None else min(before.cap_bps, cap.bps)
        return replace(self, cap_bps=caps[0], least_cap_bps=caps[1])._since_read(cap.in_force_bps(now))

    def _since_read(self, in_force_bps: float) -> JobFlow:
        """With the most that it may have sent at since: what its cap has gained since the reading before it may use by now, and where its
        rate is not known all that it may.

        Too little would make its traffic that of others, for as long as until it is read again.
        """
        if in_force_bps == math.inf:
            return self
        rate_bps = self.meter.rate_bps(_RECENT_SECONDS)
        if rate_bps is None:
            return replace(self, unread_bps=in_force_bps)
        return replace(self, unread_bps=min(in_force_bps, rate_bps + max(0.0, in_force_bps - self.least_cap_bps)))


@dataclass(frozen=True, slots=True)
class RoundMemory:
    """What a round leaves to the next. Caps, demands and flows are those of lanes, of jobs that have any; the rest is the jobs'."""

    caps: Mapping[str, Cap] = field(default_factory=dict)
    demands: Mapping[str, Demand] = field(default_factory=dict)
    foreign: Mapping[str, ForeignTraffic] = field(default_factory=dict)
    admitted: frozenset[str] = frozenset()
    guarantees_bps: Mapping[str, float] = field(default_factory=dict)
    """What jobs were guaranteed when they were admitted, or since. Without it, what they ask for counts as given."""
    flows: Mapping[str, JobFlow] = field(default_factory=dict)
    idle_since: Mapping[str, float] = field(default_factory=dict)
    """Since when jobs that have started use nothing of what they were promised."""


@dataclass(frozen=True, slots=True)
class RoundInput:
    """What one round starts from."""

    rules: PolicyRules
    jobs: tuple[Participant, ...]
    meters: Mapping[str, Meter]
    """Bytes that jobs and their lanes have sent, by UID."""
    interfaces: Mapping[InterfaceKey, Mapping[str, Meter]]
    """All traffic of interfaces, by the UID of the job whose mover reports it: of those alone whose last report counts."""
    agents: Mapping[InterfaceKey, Meter] = field(default_factory=dict)
    """All traffic of interfaces by the agents of their nodes, which belong to no tenant: it takes the place of what movers report."""


@dataclass(frozen=True, slots=True)
class RoundResult:
    """What one round concludes."""

    job_shares: Mapping[str, JobShare]
    memory: RoundMemory
    admissions: Admissions
    routes: Mapping[str, tuple[str, ...]]
    """The links of every job that crosses any, and of its lanes."""
    sharing: tuple[Participant, ...]
    """Those of them that may start or have."""
    lanes: tuple[Participant, ...]
    """The same as they are on the links: lanes in the place of jobs that have any, without those that cross no link."""
    asking: tuple[Participant, ...]
    """Those that wait."""
    available_bps: Mapping[str, float]
    foreign_bps: Mapping[str, float]
    measured_bps: Mapping[str, float]
    """Of jobs and of their lanes, as are `caps_bps`."""
    caps_bps: Mapping[str, float]
    fair: Allocation
    again_seconds: float


def run_round(facts: RoundInput, memory: RoundMemory, now: float) -> RoundResult:
    """Admits, measures, shares and settles once. Raises AllocationInputError if rules and jobs contradict each other."""
    rules = facts.rules
    routes = {job.uid: route for job in facts.jobs if (route := rules.links_of(job))}
    wanted = [job for job in facts.jobs if job.uid in routes]
    started = [job for job in wanted if job.stage is not JobStage.ASKING or job.uid in memory.admitted]
    idle_since = {job.uid: since for job in started if (since := _idle_since(facts, memory, job, now)) is not None}
    released = frozenset(uid for uid, since in idle_since.items() if now - since >= HOLD_SECONDS)
    holders = [replace(job, guarantee_bps=0.0) if job.uid in released else _as_given(job, memory) for job in started]
    holding = {job.uid: job for job in holders}

    flows = _flows(facts, memory, holders, now)
    foreign = _foreign(facts, memory, wanted, flows, now)
    foreign_bps = {
        name: rate for name, each in foreign.items() if (rate := each.rate_bps(rules.links[name].available_bps, now)) is not None
    }
    available = {name: _available(link, foreign_bps.get(name, 0.0)) for name, link in rules.links.items()}

    askers = [job for job in wanted if job.uid not in holding]
    raises = [job for job in started if job.uid not in released and job.guarantee_bps > holding[job.uid].guarantee_bps]
    admissions = admit(rules, holders, askers, now, open_bps=available, raises=raises, released=released)
    crossing = [holding[job.uid] if job.uid in admissions.not_raised or job.uid in released else job for job in wanted]
    sharing = tuple(job for job in crossing if job.uid in admissions.admitted)
    lane_routes = {lane.uid: (lane, route) for job in sharing for lane in spread(rules, job) if (route := rules.links_of(lane))}
    lanes = tuple(lane for lane, _ in lane_routes.values())
    routes |= {uid: route for uid, (_, route) in lane_routes.items()}
    measured = {each.uid: rate for each in (*sharing, *lanes) if (rate := _rate(facts, each)) is not None}
    floors = _floors(rules, routes, lanes, released)
    demands = {lane.uid: _demand(flows, memory, lane, floors[lane.uid]) for lane in lanes}
    shares = fair_shares(rules, available, routes, {lane: demands[lane.uid].most_bps for lane in lanes}, floors)
    known = {lane.uid: _cap(memory, lane).seen(lane.annotated, now) for lane in lanes}
    settled = settle(known, shares.caps_bps, Room(routes, available, floors), now)
    caps_bps = {uid: cap.bps for uid, cap in settled.caps.items()}
    bounds = bounds_of(rules, available, routes, caps_bps, lanes)
    return RoundResult(
        job_shares=_job_shares(facts, routes, admissions, _LaneCaps(caps_bps, bounds), holding, released=released),
        memory=RoundMemory(settled.caps, demands, foreign, admissions.admitted, _guarantees(facts, memory, sharing), flows, idle_since),
        admissions=admissions,
        routes=routes,
        sharing=sharing,
        lanes=lanes,
        caps_bps=caps_bps | gather(caps_bps, lanes),
        asking=tuple(job for job in crossing if job.uid not in admissions.admitted),
        available_bps=available,
        foreign_bps=foreign_bps,
        measured_bps=measured,
        fair=shares.fair,
        again_seconds=OBEYED_SECONDS + 0.1 if settled.unsettled else ROUND_SECONDS,
    )


def _idle_since(facts: RoundInput, memory: RoundMemory, job: Participant, now: float) -> float | None:
    """Since when a job that has started uses nothing of what it was promised; None while it does, and while nobody can tell yet."""
    rate_bps = _rate(facts, job)
    if rate_bps is not None and rate_bps > _USES_PART * job.guarantee_bps:
        return None
    return memory.idle_since.get(job.uid, None if rate_bps is None and _awaits_reading(facts, job) else now)


def _awaits_reading(facts: RoundInput, job: Participant) -> bool:
    """Whether a job whose data flow was not read twice yet: with many jobs that takes minutes after a change of the operator."""
    if job.stage is not JobStage.FLOWING or job.contact is Contact.SILENT:
        return False
    meters = [meter for lane in spread(facts.rules, job) if (meter := facts.meters.get(lane.uid)) is not None]
    return any(len(meter.samples) < 2 for meter in meters) if meters else job.contact is Contact.NOT_YET


def _floors(
    rules: PolicyRules, routes: Mapping[str, tuple[str, ...]], jobs: Iterable[Participant], released: Collection[str]
) -> dict[str, float]:
    """What every job gets in any case. Those of a tenant that are released share what one job gets: enough for data to begin to flow."""
    jobs = list(jobs)
    of_tenants = {job_uid(job.uid): rules.tenant(job.namespace).name for job in jobs if job_uid(job.uid) in released}
    sharers = Counter(of_tenants.values())
    return {
        job.uid: least_bps(rules.links[link] for link in routes[job.uid])
        / job.parts
        / (sharers[rules.tenant(job.namespace).name] if job_uid(job.uid) in released else 1)
        for job in jobs
    }


def _as_given(job: Participant, memory: RoundMemory) -> Participant:
    """The job with no more of a guarantee than it was given."""
    given_bps = memory.guarantees_bps.get(job.uid, job.guarantee_bps)
    return job if job.guarantee_bps <= given_bps else replace(job, guarantee_bps=given_bps)


def _guarantees(facts: RoundInput, memory: RoundMemory, sharing: Iterable[Participant]) -> dict[str, float]:
    """What is given now; jobs that cross no link at the moment keep what they had."""
    before = memory.guarantees_bps
    return {job.uid: before[job.uid] for job in facts.jobs if job.uid in before} | {job.uid: job.guarantee_bps for job in sharing}


def _rate(facts: RoundInput, job: Participant) -> float | None:
    """Its rate as it was last read; None where it is not known, and of a job that was asked in vain for long."""
    if job.lanes:
        lanes = spread(facts.rules, job)
        rates = {lane.uid: rate for lane in lanes if (rate := _rate(facts, lane)) is not None}
        return gather(rates, lanes).get(job.uid)
    meter = facts.meters.get(job.uid)
    is_heard = job.stage is JobStage.FLOWING and job.contact is not Contact.SILENT
    rate_bps = meter.rate_bps(_RECENT_SECONDS) if meter is not None and is_heard else None
    if rate_bps is None:
        return None
    # What no link of the job can carry was not sent.
    widest_bps = max((facts.rules.links[name].capacity_bps for name in facts.rules.links_of(job)), default=math.inf)
    return None if exceeds(rate_bps, widest_bps) else rate_bps


def _demand(flows: Mapping[str, JobFlow], memory: RoundMemory, job: Participant, floor_bps: float) -> Demand:
    if job.stage is not JobStage.FLOWING:
        return Demand()
    before, flow = memory.demands.get(job.uid, Demand()), flows.get(job.uid)
    if flow is None or not flow.meter.samples or flow.least_cap_bps == math.inf or job.contact is Contact.SILENT:
        return before
    # A paused probe of the path lasts as long as a job must leave something until others get it: it says nothing of what the job can use.
    recent, steady = flow.meter.unhindered_bps(_RECENT_SECONDS), flow.meter.unhindered_bps(2 * ROUND_SECONDS)
    if recent is None or steady is None:
        # Readings without a judgement are of a pause, in which nobody's patience runs on.
        return before if flow.meter.rate_bps(_RECENT_SECONDS) is None else replace(before, since=None, wants_since=None)
    # Time counts by readings: between them nothing new is seen, however many rounds there are.
    return before.after(JobUsage(recent, steady), flow.least_cap_bps, flow.meter.samples[-1].at, floor_bps)


def _flows(facts: RoundInput, memory: RoundMemory, jobs: Iterable[Participant], now: float) -> dict[str, JobFlow]:
    """Our own traffic, that of jobs which just stopped included: the interfaces' counters of the last seconds still hold it, or of the last
    minutes where they are read as rarely."""
    before = memory.flows
    flowing = {
        lane.uid: JobFlow(facts.rules.interfaces_of(lane), meter).under(_cap(memory, lane), before.get(lane.uid), now)
        for job in jobs
        for lane in spread(facts.rules, job)
        if lane.stage is JobStage.FLOWING and (meter := _meter(facts, lane)) is not None
    }
    stopped = ((uid, flow if flow.until is not None else replace(flow, until=now)) for uid, flow in before.items() if uid not in flowing)
    meters = (meter for by_job in facts.interfaces.values() for meter in by_job.values())
    oldest = min([now - KEPT_SECONDS, *(meter.samples[-2].at for meter in meters if len(meter.samples) > 1)])
    return {uid: flow for uid, flow in stopped if flow.until is not None and flow.until > oldest} | flowing


def _meter(facts: RoundInput, lane: Participant) -> Meter | None:
    """What a lane has sent: without any reading where nobody has asked yet, and None where it does not tell."""
    return facts.meters.get(lane.uid, Meter() if lane.contact is Contact.NOT_YET else None)


def _cap(memory: RoundMemory, lane: Participant) -> Cap:
    return memory.caps.get(lane.uid) or _first_cap(lane)


def _foreign(
    facts: RoundInput, memory: RoundMemory, jobs: Sequence[Participant], flows: Mapping[str, JobFlow], now: float
) -> dict[str, ForeignTraffic]:
    by_interface: dict[InterfaceKey, list[JobFlow]] = defaultdict(list)
    by_job: dict[str, list[JobFlow]] = defaultdict(list)
    for uid, flow in flows.items():
        by_job[job_uid(uid)].append(flow)
        for key in flow.interfaces:
            by_interface[key].append(flow)
    crossing: dict[str, list[Participant]] = defaultdict(list)
    for job in jobs:
        for name in facts.rules.links_of(job):
            crossing[name].append(job)
    ours = _Flows(by_job, by_interface, {job.uid: job.namespace for job in facts.jobs}, now)
    return {
        name: memory.foreign.get(name, ForeignTraffic()).noted(_claims(facts, link, crossing[name], ours), link.capacity_bps, now)
        for name, link in facts.rules.links.items()
    }


@dataclass(frozen=True, slots=True)
class _Flows:
    """Our own traffic, by job and by interface, as of `now`, and the namespaces of all jobs."""

    by_job: Mapping[str, Sequence[JobFlow]]
    by_interface: Mapping[InterfaceKey, Sequence[JobFlow]]
    namespaces: Mapping[str, str]
    now: float


def _claims(facts: RoundInput, link: LinkRule, crossing: Iterable[Participant], ours: _Flows) -> LinkClaims | None:
    """What is said of others' traffic on the link: of each interface by its node's agent, and where none reports by movers."""
    seen = {key: found.rate_bps for key in link.interfaces if (found := _agents_estimate(facts, link, key, ours)) is not None}
    claims = _movers_claims(facts, link, link.interfaces - seen.keys(), crossing, ours)
    return claims if not seen else (claims or LinkClaims(0.0, 0.0)).plus(sum(seen.values()))


def _agents_estimate(facts: RoundInput, link: LinkRule, key: InterfaceKey, ours: _Flows) -> Estimate | None:
    meter = facts.agents.get(key)
    window = meter.window(_RECENT_SECONDS) if meter is not None and not meter.is_stale(ours.now) else None
    return None if window is None else _estimate(link.capacity_bps, key, None, ours, window)


def _movers_claims(
    facts: RoundInput, link: LinkRule, interfaces: Iterable[InterfaceKey], crossing: Iterable[Participant], ours: _Flows
) -> LinkClaims | None:
    """What movers on these interfaces of the link say. Each tenant is a source, or each namespace of the only one."""
    reported = [(key, facts.interfaces[key]) for key in interfaces if key in facts.interfaces]
    if not reported:
        return None
    meters = {key: {uid: meter for uid, meter in by_job.items() if uid in ours.namespaces} for key, by_job in reported}
    namespaces = {job.namespace for job in crossing} | {ours.namespaces[uid] for by_job in meters.values() for uid in by_job}
    tenants = {namespace: facts.rules.tenant(namespace).name for namespace in namespaces}
    several = len(set(tenants.values())) > 1
    claimed: list[dict[str, list[Estimate]]] = []
    for key, by_job in meters.items():
        by_source: dict[str, list[Estimate]] = defaultdict(list)
        for uid, meter in by_job.items():
            namespace = ours.namespaces[uid]
            window = meter.window(_RECENT_SECONDS)
            if window is not None and (estimate := _estimate(link.capacity_bps, key, uid, ours, window)) is not None:
                by_source[tenants[namespace] if several else namespace].append(estimate)
        claimed.append(by_source)
    return claims_of(claimed, one_party=len(namespaces) == 1)


def _estimate(
    capacity_bps: float, key: InterfaceKey, reporter: str | None, ours: _Flows, window: tuple[CounterReading, CounterReading]
) -> Estimate | None:
    first, last = window

    def mean_bps(flow: JobFlow) -> float:
        return min(flow.mean_bps(first.at, last.at), capacity_bps)

    total_bps = (last.count - first.count) * _BITS / (last.at - first.at)
    own = ours.by_job.get(reporter, ()) if reporter is not None else ()
    own_bps = sum(mean_bps(flow) for flow in own if key in flow.interfaces)
    return estimate_of(total_bps, own_bps, sum(map(mean_bps, ours.by_interface.get(key, ()))), capacity_bps)


def _available(link: LinkRule, foreign_bps: float) -> float:
    return max(link.floor_bps, link.available_bps - foreign_bps)


def _first_cap(job: Participant) -> Cap:
    """What is in force for a job that no round has had: the cap of its status, or no bound at all if it has already started without."""
    if job.cap_bps is not None and job.stage is not JobStage.ASKING:
        if job.annotated is None:
            return Cap(job.cap_bps)
        # Another operator may have written it a moment ago, and what the sender had before nobody knows.
        return Cap(job.cap_bps, job.annotated.since, before_bps=math.inf)
    return Cap(0.0) if job.stage is JobStage.ASKING else Cap(math.inf)


@dataclass(frozen=True, slots=True)
class _LaneCaps:
    """The caps of lanes, and of jobs without, and what bounds each; by their UIDs."""

    bps: Mapping[str, float]
    bounds: Mapping[str, Bound]

    def share_of(self, job: Participant) -> JobShare:
        """What an admitted job has: of one with lanes the sum, bounded by what bounds the least of them."""
        if not job.lanes:
            return JobShare(Admission.ADMITTED, cap_bps=int(self.bps[job.uid]), bound=self.bounds.get(job.uid))
        uids = [lane_uid(job.uid, number) for number in range(len(job.lanes))]
        caps = tuple(int(self.bps[uid]) if uid in self.bps else None for uid in uids)
        narrowest = min((uid for uid in uids if uid in self.bps), key=lambda uid: self.bps[uid])
        known = [cap for cap in caps if cap is not None]
        bound = self.bounds.get(narrowest)
        if bound is not None and sum(known) >= rounded_down(job.limit_bps) * _LIMIT_REACHED:
            bound = Bound("JobLimit", bound.tenant)
        return JobShare(Admission.ADMITTED, cap_bps=sum(known) if len(known) == len(caps) else None, path_caps_bps=caps, bound=bound)


def _job_shares(
    facts: RoundInput,
    routes: Mapping[str, tuple[str, ...]],
    admissions: Admissions,
    caps: _LaneCaps,
    holding: Mapping[str, Participant],
    *,
    released: Collection[str],
) -> dict[str, JobShare]:
    job_shares: dict[str, JobShare] = {}
    for job in facts.jobs:
        if job.uid not in routes:
            job_shares[job.uid] = JobShare(Admission.ADMITTED)
        elif job.uid in admissions.admitted:
            at_receiver = facts.rules.shares_at_receiver(job)
            why = admissions.not_raised.get(job.uid, "")
            reason = Reason.GUARANTEE_NOT_RAISED
            message = f"{why}; meanwhile the job keeps {format_rate_rounded(holding[job.uid].guarantee_bps)}" if why else ""
            if job.uid in released and job.guarantee_bps > 0.0:
                message = _released(job)
            elif not message and (unlisted := facts.rules.unlisted_of(job)):
                reason, message = Reason.INTERFACE_NOT_LISTED, _not_listed(unlisted)
            job_shares[job.uid] = replace(
                caps.share_of(job),
                ceiling_bps=int(_ceiling_bps(facts.rules, job)),
                at_receiver=at_receiver,
                reason=reason if message else Reason.WAITING_FOR_LINK,
                message=message,
            )
        else:
            waits = admissions.waiting[job.uid]
            reason = Reason.GUARANTEE_TOO_LARGE if waits.impossible else Reason.WAITING_FOR_LINK
            job_shares[job.uid] = JobShare(Admission.WAITING, reason=reason, message=waits.message)
    return job_shares


def _ceiling_bps(rules: PolicyRules, job: Participant) -> float:
    most_bps = (ceiling_bps(rules, lane, route) for lane in spread(rules, job) if (route := rules.links_of(lane)))
    return min(job.limit_bps, sum(most_bps))


def _released(job: Participant) -> str:
    return (
        f"bandwidth.guarantee {format_rate_rounded(job.guarantee_bps)} is not held any more, as the job has used nothing of it for"
        f" {HOLD_SECONDS:.0f} s; it counts again when data flow and it has room"
    )


def _not_listed(unlisted: Iterable[str]) -> str:
    return (
        f"the FairnessPolicy lists no data interface {' and '.join(unlisted)}, so the job shares all links of the node: leave interface out"
        " or create a job that names a listed one, or ask an administrator to add it to spec.interfaces of the policy"
    )
