"""Finds the stream count while the transfer runs: small trials, judged by a utility of goodput, streams and loss.

The utility is Falcon's [Arifuzzaman 2021]: U = T / K^n - T B L for goodput T, n streams, loss ratio L. Two things are
added. A path with a standing queue is full: more streams could only take from others, and if fewer leave the queue standing, the rest took
from others. So beside others the count is the least that keeps the path full, and never below the shares that the job may have.
And a trial that did not help is followed by a rest, each time longer, so that a settled count stays.
"""

import math
from dataclasses import dataclass, replace
from enum import Enum

from fairlead_advisor.decide.model import DEFAULT_STREAMS

STREAM_COST = 1.01
"""K: a further stream must bring one per cent."""
LOSS_COST = 10.0
"""B."""

SETTLE_S = 1.5
SETTLE_RTTS = 15
"""After a change: new streams shake hands and leave slow start; the longer of the two."""
WINDOW_S = 3.0
LONGEST_WINDOW_S = 6.0
"""A trial whose outcome is within the noise is measured for longer."""
DOWN_WINDOW_S = 10.0
"""With fewer streams the path lives on what the queue held: a loss shows late. A clear one ends the trial after WINDOW_S."""
_HOPELESS_S = 4.0
"""Before the end of such a trial."""
REGROW_S = 8.0
"""After a trial was taken back: the windows of streams that left have to be grown again."""
FIRST_REST_S = 15.0
LONGEST_REST_S = 240.0
LONGEST_RAMP_S = 30.0
"""For goodput that grows by itself to become steady."""
LONGEST_WAIT_S = 15.0
"""For the mover to have the wanted streams open."""

FULL_BUSY_RATIO = 0.85
"""Not 1: beside a sawtooth that never empties the queue, the least RTT seen has some of their queue in it."""
STILL_FULL_BUSY_RATIO = 0.95
"""With fewer streams: the queue stands all the time, so that nothing is left unused."""
COMPANY_BUSY_RATIO = 0.5
"""Instead of either where others are known to be: what they leave between two of their sawteeth is not ours."""
SPARE_BUSY_RATIO = 0.6
APART_S = 5.0
"""Of about the last APART_MEMORY_S, in which own packets waited and the echo's did not: each flow has a queue and a share of its own."""
STILL_APART_S = 1.0
"""From fewer on it does so no more: one stream's own queue is empty for most of the time."""
APART_MEMORY_S = 60.0
CHANGE_RATIO = 0.25
FLOWING_BPS = 10e3
"""Less is a stall and no rate: nothing can be learnt from it, or compared with it."""
# Down in small steps: a stream that leaves takes its window along, and the others take seconds to grow. Measured at 100 Mb/s and 60 ms:
# going from 2 to 1 costs a third of the goodput for five seconds. Where others are known to be there, they fill the path at once.
_UP_FACTORS = (2.0, 1.5, 1.25)
_DOWN_FACTORS = (1.25,)
_COMPANY_DOWN_FACTORS = (2.0, 1.25)
# From more than the default count the halves would take half a minute.
_MANY_DOWN_FACTORS = (math.inf, *_COMPANY_DOWN_FACTORS)
_NOISE = 0.03
_RAMP_RATIO = 0.1
_OF_SHARES = "the bottleneck gives each stream a share"
# So much of what the streams had when fewer did not fill the path, and a path that is full all the same: others fill it now.
_PUSHED_RATIO = 0.85
# More streams must show that they help, fewer only that they do no harm beyond their saving.
_MARGIN_UP = 0.015
_MARGIN_DOWN = 0.003


class SearchPhase(Enum):
    """What the optimizer is doing."""

    BASE = "measures what is in force"
    TRIAL = "tries another count"
    REST = "rests"


@dataclass(frozen=True, slots=True)
class Observation:
    """A second or so of the transfer, up to `at_s` on a monotonic clock.

    `streams` is how many are open; `busy_ratio` the share of RTT samples that found a queue, None without samples. `has_share`: it had all
    of the share that a policy has allocated to the job. `waits_apart`: own packets found a queue, and the echo's did not.
    """

    at_s: float
    seconds: float
    streams: int
    goodput_bps: float
    loss_ratio: float
    busy_ratio: float | None
    has_share: bool = False
    waits_apart: bool = False


@dataclass(frozen=True, slots=True)
class CountScore:
    """What a count achieved over a window; `has_share` if for most of it the job had all of its allocated share."""

    streams: int
    goodput_bps: float
    loss_ratio: float
    busy_ratio: float | None
    seconds: float
    has_share: bool = False

    @property
    def utility(self) -> float:
        """ln U, so that differences are relative; minus infinity without goodput or where loss has eaten it all."""
        worth = STREAM_COST**-self.streams - LOSS_COST * self.loss_ratio
        return math.log(self.goodput_bps * worth) if self.goodput_bps > 0 and worth > 0 else -math.inf


@dataclass(frozen=True, slots=True)
class CountChange:
    """A count to set, and why."""

    streams: int
    why: str


@dataclass(frozen=True, slots=True)
class CountTrial:
    """How a trial ended: `kept` is the count after it. `at_once`: it had no further window than the first after the change."""

    tried: CountScore
    base: CountScore
    kept: int
    why: str
    at_once: bool = False


@dataclass(frozen=True, slots=True)
class _Window:
    """Sums over a window; it opens at `opens_s` and only once the wanted streams are there."""

    opens_s: float
    gives_up_s: float
    seconds: float = 0.0
    bits: float = 0.0
    lost: float = 0.0
    busy: float = 0.0
    busy_seconds: float = 0.0
    share_seconds: float = 0.0

    def add(self, seen: Observation) -> "_Window":
        bits = seen.goodput_bps * seen.seconds
        has_busy = seen.busy_ratio is not None
        return replace(
            self,
            seconds=self.seconds + seen.seconds,
            bits=self.bits + bits,
            lost=self.lost + seen.loss_ratio * bits,
            busy=self.busy + (seen.busy_ratio or 0.0) * seen.seconds,
            busy_seconds=self.busy_seconds + (seen.seconds if has_busy else 0.0),
            share_seconds=self.share_seconds + (seen.seconds if seen.has_share else 0.0),
        )

    def joined(self, other: "_Window") -> "_Window":
        return replace(
            self,
            seconds=self.seconds + other.seconds,
            bits=self.bits + other.bits,
            lost=self.lost + other.lost,
            busy=self.busy + other.busy,
            busy_seconds=self.busy_seconds + other.busy_seconds,
            share_seconds=self.share_seconds + other.share_seconds,
        )

    def score(self, streams: int) -> CountScore:
        return CountScore(
            streams=streams,
            goodput_bps=self.bits / self.seconds if self.seconds else 0.0,
            loss_ratio=self.lost / self.bits if self.bits else 0.0,
            busy_ratio=self.busy / self.busy_seconds if self.busy_seconds else None,
            seconds=self.seconds,
            has_share=self.share_seconds > self.seconds / 2,
        )


@dataclass(frozen=True, slots=True)
class _Yielded:
    """What more streams had on the full path, and what fewer have had there since, while nothing was tried."""

    more: CountScore
    since: _Window = _Window(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class StreamSearch:
    """Where the optimizer is. `streams` is the count that was kept last, `trial` the one being tried.

    `shares` is how many streams are the job's part of a full path, None where others need not be spared; `company`: others are known to
    be there. `yields`: the trial is to leave others their part, and is judged at `judged_by_s` at the latest. `needed_for_bps`: what the
    streams had when `too_few` did not keep the path full, None where that has not been seen. `yielded`: of a count that was kept because
    the path stayed full. `apart_s`: for how long own packets waited of late where the echo's did not; `waits_apart`: long enough, so that
    the bottleneck keeps flows apart.
    """

    minimum: int
    maximum: int
    streams: int
    phase: SearchPhase
    settle_s: float
    steady_by_s: float
    window: _Window
    base: CountScore | None = None
    trial: int | None = None
    upward: bool = True
    factor: int = 0
    turned: bool = False
    rest_s: float = FIRST_REST_S
    rests_until_s: float = 0.0
    surprises: int = 0
    shares: int | None = 1
    company: bool = False
    yields: bool = False
    judged_by_s: float = 0.0
    needed_for_bps: float | None = None
    too_few: int = 0
    yielded: _Yielded | None = None
    apart_s: float = 0.0
    waits_apart: bool = False

    @property
    def wanted(self) -> int:
        """The count that the mover shall have now."""
        return self.streams if self.trial is None else self.trial

    @property
    def rests(self) -> bool:
        """Whether nothing is being tried or measured for a trial."""
        return self.phase is SearchPhase.REST or self.minimum == self.maximum

    @property
    def settled(self) -> bool:
        """Whether a search has come to its end."""
        return self.rests_until_s > 0


@dataclass(frozen=True, slots=True)
class SearchStep:
    """What follows from an observation."""

    state: StreamSearch
    change: CountChange | None = None
    outcome: CountTrial | None = None


def start(
    streams: int, minimum: int, maximum: int, now_s: float, rtt_s: float | None = None, *, shares: int | None = 1, company: bool = False
) -> StreamSearch:
    """The state at the start of the data, or after anything else about the transport was changed."""
    settle_s = max(SETTLE_S, SETTLE_RTTS * (rtt_s or 0.0))
    first, steady_by_s = max(minimum, min(maximum, streams)), now_s + LONGEST_RAMP_S
    window = _opening(now_s, settle_s)
    return StreamSearch(minimum, maximum, first, SearchPhase.BASE, settle_s, steady_by_s, window, shares=shares, company=company)


def step(state: StreamSearch, seen: Observation) -> SearchStep:
    """Takes an observation in. Counts stay within `minimum` and `maximum`; equal ones leave nothing to do."""
    if state.minimum == state.maximum:
        return SearchStep(state)
    state = _with_queues(state, seen)
    if seen.streams != state.wanted:
        return _await(state, seen)
    if seen.at_s - seen.seconds < state.window.opens_s:
        return SearchStep(state)
    state = replace(state, window=state.window.add(seen))
    if state.window.seconds < WINDOW_S:
        return SearchStep(state)
    match state.phase:
        case SearchPhase.BASE:
            return _measure_base(state, seen.at_s)
        case SearchPhase.TRIAL:
            return _judge(state, seen.at_s)
        case SearchPhase.REST:
            return _watch(state, seen.at_s)


def _with_queues(state: StreamSearch, seen: Observation) -> StreamSearch:
    apart_s = state.apart_s * math.exp(-seen.seconds / APART_MEMORY_S) + (seen.seconds if seen.waits_apart else 0.0)
    return replace(state, apart_s=apart_s, waits_apart=apart_s >= (STILL_APART_S if state.waits_apart else APART_S))


def resumed(state: StreamSearch, now_s: float) -> SearchStep:
    """After data stood still: what is being measured is measured anew, once windows have grown again, and a trial is given up."""
    if state.trial is not None:
        why = f"back to {state.streams} streams: the data stood still during the trial"
        return SearchStep(_rest(replace(state, trial=None), now_s), CountChange(state.streams, why))
    return SearchStep(replace(state, window=_opening(now_s, max(REGROW_S, state.settle_s))))


def beside(state: StreamSearch, now_s: float, *, company: bool, shares: int | None) -> StreamSearch:
    """Whether others are known to be there now. What fewer streams did before they came says nothing of now, and a rest ends."""
    state = replace(state, shares=shares)
    if not company or state.company:
        return replace(state, company=company)
    return replace(_forgetful(state), company=True, rest_s=FIRST_REST_S, rests_until_s=min(state.rests_until_s, now_s))


def _forgetful(state: StreamSearch) -> StreamSearch:
    """The same without what fewer streams did."""
    return replace(state, needed_for_bps=None, too_few=0, yielded=None)


def _window(state: StreamSearch, now_s: float) -> _Window:
    return _opening(now_s, state.settle_s)


def _opening(now_s: float, settle_s: float) -> _Window:
    return _Window(opens_s=now_s + settle_s, gives_up_s=now_s + settle_s + LONGEST_WAIT_S)


def _await(state: StreamSearch, seen: Observation) -> SearchStep:
    """The mover has another count than wanted: wait, and give up a trial that it cannot carry out."""
    if seen.at_s < state.window.gives_up_s:
        late = max(state.window.opens_s, seen.at_s)
        return SearchStep(replace(state, window=_Window(opens_s=late, gives_up_s=state.window.gives_up_s)))
    if state.trial is None:
        # A stream that ended for good comes back when the count is set again.
        why = f"the mover has {seen.streams} of {state.streams} streams open"
        return SearchStep(replace(state, window=_window(state, seen.at_s)), CountChange(state.streams, why))
    why = f"the mover had {seen.streams} of {state.trial} streams open after {LONGEST_WAIT_S:g} s"
    return SearchStep(_rest(replace(state, trial=None), seen.at_s), CountChange(state.streams, why))


def _measure_base(state: StreamSearch, now_s: float) -> SearchStep:
    """Searches once the base is steady: what still grows by itself would be put down to the first trial."""
    before, now = state.base, state.window.score(state.streams)
    grows = before is None or now.goodput_bps > (1 + _RAMP_RATIO) * before.goodput_bps
    if grows and now_s < state.steady_by_s:
        return SearchStep(replace(state, base=now, window=_opening(now_s, 0.0)))
    return _explore(replace(state, base=now), now_s)


def _explore(state: StreamSearch, now_s: float) -> SearchStep:
    """Chooses the next trial from a measured base, or rests when there is none worth trying."""
    base = state.base
    if base is None or base.goodput_bps < FLOWING_BPS:
        return SearchStep(replace(state, phase=SearchPhase.BASE, window=_window(state, now_s)))
    if _is_full(state, base):
        return _yield(state, now_s)
    if state.needed_for_bps is None or base.goodput_bps > (1 + _NOISE) * state.needed_for_bps:
        # There is more room than when fewer streams failed.
        state = replace(state, needed_for_bps=None, too_few=0)
    state = replace(state, yields=False)
    searches = [state] if state.turned else [state, replace(state, upward=not state.upward, turned=True)]
    for search in searches:
        candidate = _candidate(search)
        if candidate is not None:
            room = "the path has room" if search.upward else "fewer may do"
            return _try(search, candidate, room, now_s)
    return SearchStep(_rest(state, now_s))


def _yield(state: StreamSearch, now_s: float) -> SearchStep:
    """On a full path: fewer streams, down to the shares that the job may have."""
    search = replace(state, upward=False, yields=True)
    candidate = _candidate(search)
    if candidate is None or _is_dear(state):
        return SearchStep(_rest(replace(state, upward=False), now_s))
    why = f"{_OF_SHARES}, and others may be there" if state.waits_apart else "the path is full, and fewer may keep it so"
    return _try(search, candidate, why, now_s)


def _is_dear(state: StreamSearch) -> bool:
    """Whether fewer streams failed alone, and are tried again only once rests have become long.

    Each trial costs what one stream had for as long as the others take to grow, and who comes is seen without it. Of many one had little.
    """
    return _fewer_failed(state) and state.streams <= DEFAULT_STREAMS


def _fewer_failed(state: StreamSearch) -> bool:
    """Whether fewer streams did not keep the path full alone, not long ago."""
    return state.needed_for_bps is not None and not state.company and state.rest_s < LONGEST_REST_S


def _has_more(state: StreamSearch) -> bool:
    """Whether there are more streams than the shares that the job may have of a full path."""
    return state.shares is not None and state.streams > max(state.shares, state.minimum)


def _try(search: StreamSearch, count: int, why: str, now_s: float) -> SearchStep:
    window = _window(search, now_s)
    state = replace(search, phase=SearchPhase.TRIAL, trial=count, window=window, judged_by_s=window.opens_s + DOWN_WINDOW_S)
    return SearchStep(state, CountChange(count, f"trying {count} instead of {search.streams} streams: {why}"))


def _is_full(state: StreamSearch, score: CountScore, full_ratio: float = FULL_BUSY_RATIO) -> bool:
    """Whether nothing is left that others do not use; never where they need not be spared.

    Behind a bottleneck that keeps flows apart the echo shows no queue, and further streams take further shares, whoever is there.
    """
    least = COMPANY_BUSY_RATIO if state.company else full_ratio
    is_busy = score.busy_ratio is not None and score.busy_ratio >= least
    return state.shares is not None and (is_busy or state.waits_apart)


def _candidate(state: StreamSearch) -> int | None:
    """The next count in the direction of search, a smaller step if the larger ones lead nowhere new; None at the limit."""
    factors = _factors(state)
    factor = factors[min(state.factor, len(factors) - 1)]
    scaled = state.streams * factor if state.upward else state.streams / factor
    if state.upward:
        higher = min(state.maximum, max(math.ceil(scaled), state.streams + 1))
        return higher if higher > state.streams else None
    floor = DEFAULT_STREAMS
    if state.yields and state.shares is not None:
        floor = max(state.shares, state.too_few + 1) if _fewer_failed(state) and not state.waits_apart else state.shares
    lower = max(state.minimum, floor, min(math.floor(scaled), state.streams - 1))
    return lower if lower < state.streams else None


def _factors(state: StreamSearch) -> tuple[float, ...]:
    if state.upward:
        return _UP_FACTORS
    if not (state.yields and (state.company or state.waits_apart)):
        return _DOWN_FACTORS
    return _MANY_DOWN_FACTORS if state.streams > DEFAULT_STREAMS else _COMPANY_DOWN_FACTORS


def _judge(state: StreamSearch, now_s: float) -> SearchStep:
    base, trial = state.base, state.trial
    if base is None or trial is None:
        raise AssertionError("a trial has a base")
    tried = state.window.score(trial)
    gain = tried.utility - base.utility
    if tried.goodput_bps < FLOWING_BPS:
        # A stall is no measurement of a count: back, and measure anew once something flows.
        outcome = CountTrial(tried, base, state.streams, f"back to {state.streams}: nothing flowed")
        anew = replace(state, phase=SearchPhase.BASE, base=None, trial=None, window=_window(state, now_s))
        return SearchStep(anew, CountChange(state.streams, outcome.why), outcome)
    if state.yields:
        return _judge_yielding(state, base, tried, now_s)
    longest_s = LONGEST_WINDOW_S if trial > state.streams else DOWN_WINDOW_S
    unclear = abs(gain) < _NOISE if trial > state.streams else gain > -_NOISE
    if unclear and state.window.seconds < longest_s:
        return SearchStep(state)
    compared = _compared(tried, base)
    if gain > (_MARGIN_UP if trial > state.streams else _MARGIN_DOWN):
        rest_s = FIRST_REST_S if gain > _NOISE else state.rest_s
        # Half of a count that has just filled the path is known to leave room: from there the steps down are small.
        factor = 1 if _is_full(state, tried) else state.factor
        if trial > state.streams and state.yielded is not None:
            state = _failed(state, state.streams, tried.goodput_bps)
        state = replace(state, streams=trial, trial=None, base=tried, rest_s=rest_s, factor=factor, yielded=None)
        following = _explore(state, now_s)
        return replace(following, outcome=CountTrial(tried, base, trial, f"kept {trial}: {compared}"))
    return _taken_back(state, tried, base, compared, now_s)


def _judge_yielding(state: StreamSearch, base: CountScore, tried: CountScore, now_s: float) -> SearchStep:
    """Fewer streams are kept as soon as the path is full with them, whoever fills it; they have time to grow.

    A share that a policy has allocated is not left to others: what had it must still have it.
    """
    compared = _compared(tried, base)
    gives_away = base.has_share and not tried.has_share
    if not gives_away and _is_full(state, tried, STILL_FULL_BUSY_RATIO):
        yielded = None if state.company or state.waits_apart else _Yielded(base)
        kept = replace(state, streams=tried.streams, trial=None, base=tried, factor=0, rest_s=FIRST_REST_S, yielded=yielded)
        following = _explore(kept, now_s)
        why = _OF_SHARES if state.waits_apart else "the path stays full"
        at_once = state.window.opens_s <= state.judged_by_s - DOWN_WINDOW_S
        outcome = CountTrial(tried, base, tried.streams, f"kept {tried.streams}: {compared}, and {why}", at_once)
        return replace(following, outcome=outcome)
    # Windows grow for seconds, but a path that is idle for half of that time will not be filled.
    hopeless = now_s >= state.judged_by_s - _HOPELESS_S and tried.busy_ratio is not None and tried.busy_ratio < COMPANY_BUSY_RATIO
    if now_s < state.judged_by_s and not hopeless:
        return SearchStep(replace(state, window=_opening(now_s, 0.0)))
    return _taken_back(_failed(state, tried.streams, base.goodput_bps), tried, base, compared, now_s)


def _failed(state: StreamSearch, streams: int, more_bps: float) -> StreamSearch:
    """The same after so many streams have not kept the path full, where more had `more_bps`."""
    return replace(state, needed_for_bps=max(state.needed_for_bps or 0.0, more_bps), too_few=max(state.too_few, streams))


def _taken_back(state: StreamSearch, tried: CountScore, base: CountScore, compared: str, now_s: float) -> SearchStep:
    trial = tried.streams
    outcome = CountTrial(tried, base, state.streams, f"back to {state.streams}: {compared}")
    narrower = _narrower(state, abs(trial - state.streams))
    if narrower is not None and narrower.trial is not None:
        # Straight on from the failed count: on the way back the windows that left would be missed, and the base would come out too low.
        following = _try(narrower, narrower.trial, "", now_s)
        return replace(following, change=CountChange(narrower.trial, f"trying {narrower.trial} instead: {compared}"), outcome=outcome)
    change = CountChange(state.streams, f"back to {state.streams} streams: {compared}")
    return SearchStep(_rest(replace(state, trial=None), now_s), change, outcome)


def _narrower(state: StreamSearch, failed_by: int) -> StreamSearch | None:
    """A trial with a smaller step in the same direction; None when there is none."""
    for factor in range(state.factor + 1, len(_factors(state))):
        narrower = replace(state, factor=factor)
        candidate = _candidate(narrower)
        if candidate is not None and abs(candidate - state.streams) < failed_by:
            return replace(narrower, trial=candidate)
    return None


def _rest(state: StreamSearch, now_s: float) -> StreamSearch:
    return replace(
        state,
        phase=SearchPhase.REST,
        window=_opening(now_s, max(REGROW_S, state.settle_s)),
        rests_until_s=now_s + state.rest_s,
        rest_s=min(2 * state.rest_s, LONGEST_REST_S),
        surprises=0,
    )


def _watch(state: StreamSearch, now_s: float) -> SearchStep:
    """While resting: two windows in a row unlike the base, or the end of the rest, start a new search."""
    now = state.window.score(state.streams)
    state = _with_rest(state)
    if state.yielded is not None and _filled_by_chance(state, state.yielded):
        return _taken_up(state, state.yielded, now_s)
    base = state.base or now
    filled = _has_more(state) and _is_full(state, now) and not _is_needed(state, now)
    surprises = state.surprises + 1 if filled or _changed(base, now) else 0
    if surprises >= 2:
        # What changed the path may have changed what is best by far: search as at the start.
        known = _forgetful(state) if _is_full(state, now) else state
        return _explore(_afresh(known, now, upward=True, factor=0, rest_s=FIRST_REST_S), now_s)
    if now_s >= state.rests_until_s and not surprises:
        # A small step: up where the path has room for certain, else the other direction than the last time.
        upward = _has_room(now) or not state.upward
        return _explore(_afresh(state, now, upward=upward, factor=len(_UP_FACTORS) - 1, rest_s=state.rest_s), now_s)
    reference = now if state.base is None or not surprises else state.base
    return SearchStep(replace(state, base=reference, surprises=surprises, window=_Window(opens_s=now_s, gives_up_s=now_s + LONGEST_WAIT_S)))


def _with_rest(state: StreamSearch) -> StreamSearch:
    """Takes a window of a rest in, in which nothing hides what a count has; what has been judged begins anew."""
    now = state.window.score(state.streams)
    if state.needed_for_bps is not None and _is_full(state, now):
        state = replace(state, needed_for_bps=max(state.needed_for_bps, now.goodput_bps))
    if state.yielded is None:
        return state
    since = state.yielded.since if state.yielded.since.seconds < DOWN_WINDOW_S else _Window(0.0, 0.0)
    return replace(state, yielded=replace(state.yielded, since=since.joined(state.window)))


def _filled_by_chance(state: StreamSearch, yielded: _Yielded) -> bool:
    """Whether a count that was kept because the path stayed full does not fill it after all, as where packets are lost at random.

    What has much less than more streams had was pushed aside, or the path is another one: that is a surprise.
    """
    since, had_bps = yielded.since.score(state.streams), yielded.more.goodput_bps
    idles = since.busy_ratio is not None and since.busy_ratio < STILL_FULL_BUSY_RATIO
    return since.seconds >= DOWN_WINDOW_S and idles and _PUSHED_RATIO * had_bps <= since.goodput_bps < (1 - _NOISE) * had_bps


def _taken_up(state: StreamSearch, yielded: _Yielded, now_s: float) -> SearchStep:
    """Goes back to the count before one that filled the path by chance."""
    more, since = yielded.more, yielded.since.score(state.streams)
    why = f"back to {more.streams} streams: {_compared(more, since)}, since the path does not stay full"
    failed = replace(_failed(state, state.streams, more.goodput_bps), streams=more.streams, base=None, yielded=None)
    return SearchStep(_rest(failed, now_s), CountChange(more.streams, why), CountTrial(more, since, more.streams, why))


def _is_needed(state: StreamSearch, now: CountScore) -> bool:
    """Whether fewer streams would still not keep the path full. Who comes slowly changes little from one window to the next."""
    return state.needed_for_bps is not None and now.goodput_bps >= _PUSHED_RATIO * state.needed_for_bps


def _has_room(score: CountScore) -> bool:
    return score.busy_ratio is not None and score.busy_ratio < FULL_BUSY_RATIO


def _afresh(state: StreamSearch, base: CountScore, *, upward: bool, factor: int, rest_s: float) -> StreamSearch:
    return replace(state, base=base, upward=upward, turned=False, factor=factor, rest_s=rest_s, surprises=0)


def _changed(base: CountScore, now: CountScore) -> bool:
    if base.goodput_bps <= 0:
        return now.goodput_bps > 0
    if abs(now.goodput_bps / base.goodput_bps - 1) > CHANGE_RATIO:
        return True
    if base.busy_ratio is None or now.busy_ratio is None:
        return False
    return base.busy_ratio >= FULL_BUSY_RATIO and now.busy_ratio < SPARE_BUSY_RATIO


def _compared(tried: CountScore, base: CountScore) -> str:
    ratio = tried.goodput_bps / base.goodput_bps - 1
    return (
        f"{tried.goodput_bps / 1e6:.1f} Mb/s with {tried.streams} against {base.goodput_bps / 1e6:.1f} with {base.streams} ({ratio:+.1%})"
    )
