"""What one pass over a job shows of its path. All of it follows from pods and their reports, so that a restart loses nothing that runs."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from fairlead.api.names import CONTROLLER
from fairlead.api.reasons import ConditionType, MoverReason
from fairlead.api.transferjob.spec import UDT_CONTROLS, Transport
from fairlead.api.transferjob.status import ProtocolInForce
from fairlead.core.network import ends_of, traits_of
from fairlead.core.observed import MoverPod, Observed, PodPhase, Role, latest_attempt_of
from fairlead.core.paths.engines import asked_protocol
from fairlead.core.paths.model import EngineResult, KnownBackground, Lease, Measurement, PathEnds, PathEvidence, PathProbe, PathTransfer
from fairlead.core.plan import CreatePod, Plan
from fairlead.core.reports import DecisionReport, OutcomeReport, Verdict
from fairlead.core.verdicts import is_live, own_verdict, proven_success

NEWS = timedelta(hours=1)
"""What was measured longer ago is not taken in again: it was, or it is too old."""

_BITS = 8
_SHORTEST_BULK_SECONDS = 5.0
"""Less is mostly slow start, and no measure of the path."""
_SMALLEST_BULK_BYTES = 10**7
"""Some 7,000 packets: less does not show what share of them is lost."""
_GIGABYTE = 1e9
_LEAST_TCP_STREAMS = 4
"""TCP that a user holds to fewer is slower than what would be chosen."""
_HELD_BY_CAP = 0.9
_MOST_AT_CAP_RATIO = 0.1
"""A transfer that was at its cap for longer shows the cap."""
_MOST_LIMITED_RATIO = 0.5
"""One that waited longer for its source or its receiver shows their disks."""
_CLOCK_LAG = timedelta(minutes=1)
_CLOCK_LEAD = timedelta(seconds=5)
"""By how much a node's clock may be off before the API server's time for the pod is taken instead."""


def own_ends(observed: Observed, attempt: int) -> PathEnds | None:
    """The path as far as it is known; None while a node is not, within one node, and where pods have interfaces of their own."""
    source, destination = ends_of(observed, attempt)
    on_host = traits_of(observed.job).uses_node_interfaces
    if not on_host or source.node is None or destination.node is None or source.node == destination.node:
        return None
    return PathEnds(source.node, source.interface, destination.node, destination.interface)


def evidence_of(observed: Observed, plan: Plan, now: datetime) -> PathEvidence | None:
    """The job on its path once `plan` is carried out; None if it neither is on one nor has measured one."""
    if observed.job.spec.managed_by != CONTROLLER:
        return None
    starting = next((action for action in plan.creates if action.role is Role.SENDER), None)
    attempt = starting.attempt if starting else latest_attempt_of(observed.pods)
    sender = observed.mover(Role.SENDER, attempt)
    ends = own_ends(observed, attempt) if sender or starting else None
    if ends is None:
        return None
    runs = starting is not None or (sender is not None and is_live(sender) and not sender.deleting)
    live = runs or _has_more_to_say(observed, sender)
    progress = observed.reports.sender
    # A mover whose advisor died before it decided sends all the same.
    sends = progress is not None and (progress.flows or progress.has_flowed)
    decided = sends or observed.reports.decision is not None or observed.job.status.is_true(ConditionType.PATH_PROBED)
    measurement = None if sender is None else _measurement(observed, plan, sender, ends, now)
    if not live and measurement is None:
        return None
    lease = None if not runs or decided else _lease(observed, sender, starting, attempt, now)
    decision = observed.reports.decision
    return PathEvidence(
        observed.job.metadata.uid, ends, live, runs and decided, lease, measurement, decision.congestion_control if decision else None
    )


def _has_more_to_say(observed: Observed, sender: MoverPod | None) -> bool:
    """Whether the receiver's verdict or the sidecar's termination message, which comes with the end of the whole pod, may still come."""
    if sender is None or sender.deleting:
        return False
    receiver = observed.mover(Role.RECEIVER, sender.attempt)
    receiver_runs = receiver is not None and is_live(receiver) and not receiver.deleting
    return receiver_runs or sender.phase not in (PodPhase.SUCCEEDED, PodPhase.FAILED)


def _lease(observed: Observed, sender: MoverPod | None, starting: CreatePod | None, attempt: int, now: datetime) -> Lease | None:
    if sender is not None:
        probes, since = not sender.knows_path, sender.created_at
    else:
        probes, since = starting is not None and starting.probe, now
    return Lease(observed.job.metadata.uid, attempt, since + observed.settings.probe_lease) if probes else None


def _measurement(observed: Observed, plan: Plan, sender: MoverPod, ends: PathEnds, now: datetime) -> Measurement | None:
    decision, metadata = observed.reports.decision, observed.job.metadata
    # What goes over several interfaces, or one that is not known, tells nothing of one path.
    engine = None if None in (ends.source_interface, ends.destination_interface) else _engine(observed, plan, sender, now)
    measurement = Measurement(metadata.uid, sender.attempt, namespace=metadata.namespace, engine=engine)
    if decision is not None:
        decided_at = _plausible(decision.decided_at, sender, now)
        measurement = replace(
            measurement,
            probe=_probe(observed, sender, decision, decided_at),
            background=_background(decision, decided_at),
            transfer=_transfer(observed, sender, decision, decided_at),
        )
    latest = measurement.latest
    return measurement if latest is not None and now - latest <= NEWS else None


def _plausible(moment: datetime, sender: MoverPod, now: datetime) -> datetime:
    """`moment` to the second; the pod's creation if the node's clock must be wrong: a time in the future would stay the newest."""
    if not sender.created_at - _CLOCK_LAG <= moment <= now + _CLOCK_LEAD:
        moment = sender.created_at
    return moment.replace(microsecond=0)


def _probe(observed: Observed, sender: MoverPod, decision: DecisionReport, at: datetime) -> PathProbe | None:
    path = observed.reports.path
    if path is None or path.rtt_seconds is None:
        return None
    # A glance at a known path, or what was seen beside the job's own data, must not pass for a new probe. That the sender was given the
    # path proves nothing: an advisor that finds another RTT probes after all.
    whole = not (sender.knows_path or decision.switched) if path.whole is None else path.whole
    if not whole:
        return None
    minimum_seconds = path.rtt_seconds if path.rtt_minimum_seconds is None else path.rtt_minimum_seconds
    return PathProbe(at, path.rtt_seconds, minimum_seconds, path.loss_ratio)


def _background(decision: DecisionReport, at: datetime) -> KnownBackground | None:
    probabilities, any_bbr, confidence = decision.probabilities, decision.any_bbr, decision.confidence
    if decision.recalled or not probabilities or any_bbr is None or confidence is None or decision.model is None:
        return None
    name = decision.background or max(probabilities, key=lambda candidate: probabilities[candidate])
    return KnownBackground(
        class_name=name,
        probability=probabilities.get(name, decision.background_probability or 0.0),
        probabilities=probabilities,
        any_bbr=any_bbr,
        confidence=confidence,
        abstained=decision.background_abstained,
        model=decision.model,
        measured_at=at,
    )


def _transfer(observed: Observed, sender: MoverPod, decision: DecisionReport, decided_at: datetime) -> PathTransfer | None:
    if observed.job.spec.transport.is_scavenger:
        # What others left says little of what a normal job gets.
        return None
    receiver = observed.mover(Role.RECEIVER, sender.attempt)
    verdict = proven_success(receiver, observed.job.metadata.uid)
    if receiver is None or verdict is None or verdict.bulk_seconds < _SHORTEST_BULK_SECONDS:
        return None
    rate_bps = verdict.bytes_sent * _BITS / verdict.bulk_seconds
    cap_bps = observed.job.status.cap_bps
    if rate_bps <= 0 or (cap_bps is not None and rate_bps >= _HELD_BY_CAP * cap_bps):
        return None
    outcome = observed.reports.outcome
    if outcome is not None and not _path_held_back(outcome):
        return None
    return PathTransfer(
        at=(receiver.ended_at or decided_at).replace(microsecond=0),
        congestion_control=outcome.congestion_control if outcome else decision.congestion_control,
        streams=outcome.streams if outcome else decision.streams,
        rate_bps=rate_bps,
        stream_coefficient=outcome.stream_coefficient if outcome else None,
    )


def _engine(observed: Observed, plan: Plan, sender: MoverPod, now: datetime) -> EngineResult | None:
    """What the attempt showed of its transport protocol: that UDP did not get through, or, once both ends are done, how it did."""
    asked, said = asked_protocol(observed.job), own_verdict(sender, observed.job.metadata.uid)
    blocked_at = None if asked == "TCP" else _blocked_at(observed, plan, sender, said)
    if blocked_at is not None:
        return EngineResult(_plausible(blocked_at, sender, now), asked, None)
    receiver = observed.mover(Role.RECEIVER, sender.attempt)
    arrived = proven_success(receiver, observed.job.metadata.uid)
    if receiver is None or arrived is None or said is None or said.protocol != asked or not _tells_of(asked, observed.job.spec.transport):
        return None
    outcome, at = observed.reports.outcome, _plausible(receiver.ended_at or sender.created_at, sender, now)
    return engine_result(asked, said, arrived, at, cap_bps=observed.job.status.cap_bps, outcome=outcome)


def engine_result(
    protocol: ProtocolInForce, said: Verdict, arrived: Verdict, at: datetime, *, cap_bps: float | None, outcome: OutcomeReport | None = None
) -> EngineResult | None:
    """What a transfer over `protocol` showed of it, by the verdicts of both ends; None if it was small or waited for a disk."""
    delivered = arrived.bytes_sent
    if arrived.bulk_seconds < _SHORTEST_BULK_SECONDS or delivered < _SMALLEST_BULK_BYTES:
        return None
    if outcome is not None and _disk_ratio(outcome) > _MOST_LIMITED_RATIO:
        return None
    goodput_bps = delivered * _BITS / arrived.bulk_seconds
    at_cap = cap_bps is not None and goodput_bps >= _HELD_BY_CAP * cap_bps
    sent_again = None if said.retransmitted_bytes is None else said.retransmitted_bytes + said.bytes_resent
    return EngineResult(
        at,
        protocol,
        goodput_bps,
        at_cap=at_cap or (outcome is not None and outcome.cap_limited_ratio > _MOST_AT_CAP_RATIO),
        resent_ratio=None if sent_again is None else sent_again / delivered,
        cpu_seconds_per_gb=None if said.cpu_seconds is None else said.cpu_seconds * _GIGABYTE / delivered,
    )


def _blocked_at(observed: Observed, plan: Plan, sender: MoverPod, said: Verdict | None) -> datetime | None:
    """When it was seen that UDP does not get through in this attempt; None while nothing says so."""
    status = plan.status or observed.job.status
    kept = status.condition(ConditionType.PROTOCOL_KEPT)
    if kept is not None and kept.status == "False" and status.attempts == sender.attempt:
        return kept.last_transition_time
    if said is not None and said.reason == MoverReason.PROTOCOL_UNAVAILABLE:
        return sender.ended_at or sender.created_at
    return None


def _tells_of(protocol: ProtocolInForce, transport: Transport) -> bool:
    """Whether such a job shows what the protocol can do there: not one that gives way, sends at a set rate, or is held to less."""
    if transport.is_scavenger:
        return False
    match protocol:
        case "TCP":
            return transport.congestion_control == "Auto" and transport.streams.max >= _LEAST_TCP_STREAMS
        case "UDT":
            return transport.congestion_control in ("Auto", UDT_CONTROLS[0])
        case "QUIC":
            return True


def _disk_ratio(outcome: OutcomeReport) -> float:
    """For what part of the time it waited for its source or its receiver."""
    idle = outcome.source_limited_ratio
    return idle + (1 - idle) * outcome.receive_window_limited_ratio


def _path_held_back(outcome: OutcomeReport) -> bool:
    """Whether it was the path, and no cap or disk, that bounded the transfer for most of its time."""
    return outcome.cap_limited_ratio <= _MOST_AT_CAP_RATIO and _disk_ratio(outcome) <= _MOST_LIMITED_RATIO
