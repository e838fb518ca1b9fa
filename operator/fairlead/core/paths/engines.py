"""Which transport protocol carries a job that leaves the choice, by what earlier transfers measured on its path.

docs/explanation/engine-choice.md has the rule in words.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from fairlead.api.networkpath.status import EnginePoint, PathKnowledge
from fairlead.api.shared.quantity import RateError, format_rate_rounded, format_ratio, parse_milliseconds, parse_rate
from fairlead.api.transferjob import TransferJob
from fairlead.api.transferjob.spec import QUIC_CONTROLS, Transport
from fairlead.api.transferjob.status import EngineChoice, EngineVerdict, EngineWeighed, ProtocolInForce
from fairlead.core.paths.model import EngineEvidence, EngineResult

BELIEVED: Final = timedelta(days=7)
"""How long a measurement counts, and how long UDP that did not get through keeps jobs from trying it: as long as a path's rates."""

TIE: Final = 0.05
"""What is within it goes to TCP."""

LOSSY_FACTOR: Final = 4.0
"""UDP is taken to be policed where it is sent again so many times as often as TCP. Where a firewall took paced UDP for a flood, other UDP
lost 6.0 % beside it and 1.5 % beside parallel TCP [AlMobayed 2018, tables 4.2 to 4.9]."""
LOSSY_FLOOR: Final = 0.02
"""And where it is more than this: twice the 1 % below which paced UDP mostly stayed on the other paths [AlMobayed 2018, chapter 4]."""

_BITS_PER_GB: Final = 8e9
_LONGEST_MESSAGE: Final = 300


@dataclass(frozen=True, slots=True)
class Prior:
    """What is expected of a protocol before it is measured: `ratio` of TCP's goodput, worth `measurements`."""

    ratio: float
    measurements: float


_UNTOLD: Final = Prior(1.0, 2.0)
"""As fast as TCP, so that a single transfer that was a little faster is not enough. QUIC's rank in [AlMobayed 2018] came from pauses
between chunks, and is no prior."""


def prior_of(protocol: ProtocolInForce, rtt_seconds: float | None) -> Prior:
    """How paced UDP stood to parallel TCP at each RTT in [AlMobayed 2018, chapter 4].

    That is an order without sizes, so behind is a tenth. Where it is shaky it is worth one measurement, elsewhere two. None is above a tie.
    """
    if protocol != "UDT" or rtt_seconds is None:
        return _UNTOLD
    if rtt_seconds < 0.005:
        return Prior(0.9, 2.0)
    if 0.02 <= rtt_seconds <= 0.06:
        return Prior(0.9, 1.0)
    return Prior(1.0, 2.0) if rtt_seconds > 0.1 else _UNTOLD


@dataclass(frozen=True, slots=True)
class EngineQuestion:
    """What the choice goes by. `allowed_bps`: the cap in force, None without one; `allocated`: it is a share by a FairnessPolicy. `cpus`:
    those that the sender may use, None if unknown.

    `not_allowed`: protocols that the job's other settings rule out. `results` are none but those that still count.
    """

    results: tuple[EngineResult, ...]
    rtt_seconds: float | None = None
    allowed_bps: float | None = None
    allocated: bool = False
    cpus: float | None = None
    not_allowed: frozenset[ProtocolInForce] = frozenset()


def asked_protocol(job: TransferJob) -> ProtocolInForce:
    """What the job's latest attempt is to use, by its spec or by what was chosen for it."""
    return protocol_of(job.spec.transport, job.status.engine_choice)


def protocol_of(transport: Transport, choice: EngineChoice | None) -> ProtocolInForce:
    """What carries the data: what the job names, else what was chosen, else TCP."""
    return transport.named_protocol or (choice.protocol if choice is not None else "TCP")


def is_open(job: TransferJob) -> bool:
    """Whether the job leaves the protocol to be chosen, for one path between two interfaces."""
    ends = (job.spec.source, job.spec.destination)
    return job.spec.transport.named_protocol is None and not any(len(end.named_interfaces) > 1 for end in ends)


def ruled_out(job: TransferJob) -> frozenset[ProtocolInForce]:
    """Protocols that do not go together with what else the job asks for."""
    transport = job.spec.transport
    if transport.encryption == "None":
        return frozenset({"QUIC", "UDT"})
    if transport.congestion_control == "Auto":
        return frozenset()
    return frozenset({"UDT"}) if transport.congestion_control in QUIC_CONTROLS else frozenset({"QUIC", "UDT"})


def evidence_in(known: PathKnowledge, now: datetime) -> EngineEvidence:
    """What of a namespace's knowledge of a path still counts."""
    read = (_result(point) for point in known.engines)
    results = tuple(result for result in read if result is not None and now - result.at <= BELIEVED)
    return EngineEvidence(results, parse_milliseconds(known.rtt_minimum or ""))


def choose(question: EngineQuestion) -> EngineChoice | None:
    """The protocol with the most goodput of those that nothing speaks against, TCP unless another one is clearly faster.

    None where nothing but TCP was ever measured, so that there is nothing to weigh.
    """
    if all(result.protocol == "TCP" for result in question.results):
        return None
    others: tuple[ProtocolInForce, ...] = ("QUIC", "UDT")
    verdicts: dict[ProtocolInForce, EngineVerdict] = {protocol: _verdict(protocol, question) for protocol in others}
    faster = [protocol for protocol in others if verdicts[protocol] == "Chosen"]
    chosen: ProtocolInForce = "TCP"
    if faster:
        # QUIC shares a path as TCP does, so a tie among the others goes to it.
        chosen, *behind = sorted(faster, key=lambda protocol: -_mean_bps(protocol, question))
        if chosen == "UDT" and behind and _ties(_mean_bps("UDT", question), _mean_bps("QUIC", question)):
            chosen = "QUIC"
        best_bps = _mean_bps(chosen, question)
        for protocol in faster:
            if protocol != chosen:
                verdicts[protocol] = "Tied" if _ties(best_bps, _mean_bps(protocol, question)) else "Slower"
    of_tcp: EngineVerdict = "Chosen" if chosen == "TCP" else "Slower"
    weighed = [_weighed("TCP", of_tcp, question), *(_weighed(protocol, verdicts[protocol], question) for protocol in others)]
    return EngineChoice(protocol=chosen, message=_message(chosen, weighed), weighed=tuple(weighed))


def _verdict(protocol: ProtocolInForce, question: EngineQuestion) -> EngineVerdict:
    """What becomes of another protocol than TCP, looked at beside TCP alone; `Chosen` if it is clearly faster."""
    if protocol in question.not_allowed:
        return "NotAllowed"
    barred = _barred(protocol, question)
    if barred is not None:
        return barred
    if not _carried(protocol, question) or not _carried("TCP", question):
        return "NotMeasured"
    # A job's own limit says nothing of what it may take from others, to whom UDT leaves little.
    if protocol == "UDT" and (question.allowed_bps is None or not question.allocated):
        return "NeedsCap"
    expected_bps, tcp_bps = _expected_bps(protocol, question), _tcp_bps(_mean_bps(protocol, question), question)
    if expected_bps <= (1 + TIE) * tcp_bps:
        return "Tied" if expected_bps * (1 + TIE) >= tcp_bps else "Slower"
    return "Chosen" if _fits_processors(protocol, question) else "CpuScarce"


def _barred(protocol: ProtocolInForce, question: EngineQuestion) -> EngineVerdict | None:
    """Why UDP is not to be used: it was blocked, cut or lossy there, whichever protocol saw it, since this one last did well."""
    most = max(LOSSY_FLOOR, LOSSY_FACTOR * (_mean(_known(result.resent_ratio for result in _carried("TCP", question))) or 0.0))
    well_at: datetime | None = None
    bad: tuple[datetime, EngineVerdict] | None = None
    for result in sorted((each for each in question.results if each.protocol != "TCP"), key=lambda each: each.at):
        if result.goodput_bps is None:
            bad = result.at, "UdpBlocked"
        elif result.resent_ratio is not None and result.resent_ratio > most:
            bad = result.at, "UdpLossy"
        elif result.protocol == protocol:
            well_at = result.at
    return None if bad is None or (well_at is not None and well_at > bad[0]) else bad[1]


def _fits_processors(protocol: ProtocolInForce, question: EngineQuestion) -> bool:
    """Whether the sender's processors suffice for the rate that the protocol may come to; not where its cost was never measured."""
    if question.cpus is None:
        return True
    carried = _carried(protocol, question)
    costs = _known(result.cpu_seconds_per_gb for result in carried)
    if not costs:
        return False
    most_bps = math.inf if any(result.at_cap for result in carried) else max(_goodput_bps(result) for result in carried)
    rate_bps = min(most_bps, math.inf if question.allowed_bps is None else question.allowed_bps)
    if math.isinf(rate_bps):
        rate_bps = max(_goodput_bps(result) for result in carried)
    return math.fsum(costs) / len(costs) * rate_bps / _BITS_PER_GB <= question.cpus


def _expected_bps(protocol: ProtocolInForce, question: EngineQuestion) -> float:
    """The mean of what was measured and of the prior, each by its number of measurements."""
    prior, count, mean_bps = prior_of(protocol, question.rtt_seconds), len(_carried(protocol, question)), _mean_bps(protocol, question)
    believed_bps = prior.ratio * _tcp_bps(mean_bps, question)
    return (prior.measurements * believed_bps + count * mean_bps) / (prior.measurements + count)


def _mean_bps(protocol: ProtocolInForce, question: EngineQuestion) -> float:
    return _mean(_within(_goodput_bps(result), question) for result in _carried(protocol, question)) or 0.0


def _tcp_bps(other_bps: float, question: EngineQuestion) -> float:
    """TCP's mean beside another protocol's. Where a cap held TCP back, nothing says that it is slower: it counts as that one's equal."""
    rates = (max(_goodput_bps(result), other_bps) if result.at_cap else _goodput_bps(result) for result in _carried("TCP", question))
    return _mean(_within(rate_bps, question) for rate_bps in rates) or 0.0


def _within(rate_bps: float, question: EngineQuestion) -> float:
    """What of a rate the job may take."""
    return rate_bps if question.allowed_bps is None else min(rate_bps, question.allowed_bps)


def _ties(most_bps: float, other_bps: float) -> bool:
    return most_bps <= (1 + TIE) * other_bps


def _carried(protocol: ProtocolInForce, question: EngineQuestion) -> list[EngineResult]:
    """The transfers that went over the protocol."""
    return [result for result in question.results if result.protocol == protocol and result.goodput_bps is not None]


def _goodput_bps(result: EngineResult) -> float:
    return result.goodput_bps or 0.0


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _mean(values: Iterable[float]) -> float | None:
    found = list(values)
    return math.fsum(found) / len(found) if found else None


def _weighed(protocol: ProtocolInForce, verdict: EngineVerdict, question: EngineQuestion) -> EngineWeighed:
    carried = _carried(protocol, question)

    def text(values: Iterable[float | None], form: Callable[[float], str]) -> str | None:
        mean = _mean(_known(values))
        return None if mean is None else form(mean)

    return EngineWeighed(
        protocol=protocol,
        goodput=format_rate_rounded(_mean_bps(protocol, question)) if carried else None,
        measurements=len(carried),
        resent=text((result.resent_ratio for result in carried), format_ratio),
        cpu_seconds_per_gigabyte=text((result.cpu_seconds_per_gb for result in carried), format_ratio),
        verdict=verdict,
    )


_WORDS: Final[dict[EngineVerdict, str]] = {
    "Slower": "was slower",
    "Tied": "was not clearly faster",
    "NotMeasured": "was not measured beside TCP within a week",
    "UdpBlocked": "is barred, as UDP did not get through",
    "UdpLossy": "is barred, as UDP lost far more than TCP",
    "CpuScarce": "is not known to fit the sender's processors",
    "NeedsCap": "is used within a share by a FairnessPolicy alone",
    "NotAllowed": "does not go with what else the job asks for",
}


def _message(chosen: ProtocolInForce, weighed: list[EngineWeighed]) -> str:
    by_protocol = {each.protocol: each for each in weighed}
    if chosen != "TCP":
        own, tcp = by_protocol[chosen], by_protocol["TCP"]
        message = f"{chosen} got {own.goodput} on this path in {_times(own.measurements)}, TCP {tcp.goodput} in {_times(tcp.measurements)}"
    else:
        message = "TCP: " + "; ".join(f"{each.protocol} {_WORDS[each.verdict]}" for each in weighed if each.protocol != "TCP")
    return message[:_LONGEST_MESSAGE]


def _times(count: int) -> str:
    return "1 transfer" if count == 1 else f"{count} transfers"


def _result(point: EnginePoint) -> EngineResult | None:
    """The stored form as numbers; None if somebody wrote what is none."""
    try:
        goodput_bps = None if point.goodput is None else float(parse_rate(point.goodput))
        resent, cost = _number(point.resent), _number(point.cpu_seconds_per_gigabyte)
    except (RateError, ValueError):
        return None
    return EngineResult(point.time, point.protocol, goodput_bps, point.at_cap, resent, cost)


def _number(text: str | None) -> float | None:
    if text is None:
        return None
    value = float(text)
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{text!r} is no measurement")
    return value
