"""The machine alone: events in, actions out, no event loop and no clock but the one of the table."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from fairlead_advisor.decide.background import Background
from fairlead_advisor.decide.loop import machine, monitoring
from fairlead_advisor.decide.loop.machine import PERIOD_S, REST_PERIOD_S, handle, sampling_period_s
from fairlead_advisor.decide.loop.messages import (
    Classified,
    Classify,
    Event,
    ProbeFinished,
    ProbePaused,
    Publish,
    ReportBuffers,
    ReportProbe,
    ReportSwitch,
    ReportVerdict,
    Sampled,
    SamplingFailed,
    SetTransport,
    TransportApplied,
    TransportFailed,
    TransportRefused,
    Warn,
)
from fairlead_advisor.decide.loop.state import AwaitsProbe, Equipment, begin
from fairlead_advisor.decide.model import BufferLimits, Decision, DecisionReason, History, PathMeasurement, TransportLimits
from fairlead_advisor.decide.monitor.probe_budget import ProbeReason
from fairlead_advisor.decide.optimizer import CountScore, CountTrial
from fairlead_advisor.decide.switching import SwitchState
from fairlead_advisor.decide.transfer import MoverStats, StreamStats, TransportSettings
from tests.support.loop import Loop
from tests.support.model_mover import seen

PATH = PathMeasurement(rtt_s=0.06, rtt_minimum_s=0.06, loss_ratio=0.0, samples=200)
MIB = 2**20
FIXED = TransportLimits(4, 4)
NOBODY, BBR, UNSURE = seen("B0-C0"), seen("B1-C0"), seen("B1-C0", 0.6, abstained=True)
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def begun(
    background: Background | None = NOBODY,
    limits: TransportLimits = FIXED,
    equipment: Equipment = Equipment((5.0, 10.0), monitored=True),  # noqa: B008 - frozen
) -> Loop:
    reason = DecisionReason.NO_MODEL if background is None else DecisionReason.CLASSIFIED
    decision = Decision("cubic", 4, abstained=False, reason=reason, message="as told", background=background)
    return Loop(begin(PATH, decision, limits, History(), equipment, applied=True, now_s=0.0, now=NOW))


def at_probe() -> Loop:
    """After half a minute as usual BBR pushes the transfer aside, and the machine asks for a paused probe."""
    loop = begun()
    for _ in range(30):
        for action in loop.sample():
            if isinstance(action, Classify):
                loop.hand_in(Classified(NOBODY))
    loop.goodput_bps = 15e6
    for _ in range(20):
        actions = loop.sample()
        while actions and isinstance(actions[-1], Classify):
            actions = loop.hand_in(Classified(seen("B1-C1")))
        if actions and isinstance(actions[-1], ProbePaused):
            return loop
    raise AssertionError("no paused probe")


@pytest.mark.parametrize(
    "event",
    [Classified(None), ProbeFinished(1.0, None, None), TransportApplied(TransportSettings("cubic", 4)), TransportFailed("no answer", True)],
    ids=lambda event: type(event).__name__,
)
def test_an_answer_that_nothing_asked_for_is_an_error(event: Event) -> None:
    with pytest.raises(ValueError, match=f"{type(event).__name__} does not answer NoneType"):
        begun().hand_in(event)


def test_a_sample_before_the_answer_is_an_error() -> None:
    with pytest.raises(ValueError, match="Sampled does not answer AwaitsProbe"):
        at_probe().sample()


def test_the_state_before_an_event_is_left_as_it_was() -> None:
    loop = at_probe()
    before = loop.state
    first = handle(before, ProbeFinished(6.0, PATH, BBR), loop.now_s)
    assert handle(before, ProbeFinished(6.0, PATH, BBR), loop.now_s) == first
    assert isinstance(before.pending, AwaitsProbe)


def test_another_protocol_than_was_decided_for_is_published_once() -> None:
    loop = begun(limits=FIXED)
    loop.state = replace(loop.state, published=replace(loop.state.published, protocol="QUIC"))
    loop.protocol = "QUIC"
    assert not any(isinstance(action, Publish) for _ in range(3) for action in loop.sample())
    loop.protocol = "TCP"
    published = [action.decision for _ in range(3) for action in loop.sample() if isinstance(action, Publish)]
    assert [(decision.protocol, decision.message) for decision in published] == [
        ("TCP", "as told; the data go over TCP, as QUIC does not get through")
    ]


@pytest.mark.parametrize("stage", ["AwaitingTransport", "Verifying", "Done"])
def test_outside_the_transfer_nothing_is_done(stage: str) -> None:
    loop = begun()
    loop.stage = stage
    assert [loop.sample() for _ in range(10)] == [()] * 10


def test_after_a_sample_that_failed_the_next_one_has_nothing_to_be_compared_with() -> None:
    loop = begun()
    loop.sample()
    assert len(loop.sample()) == 1
    loop.hand_in(SamplingFailed())
    assert (loop.sample(), len(loop.sample())) == ((), 1)


def test_a_sure_answer_for_another_congestion_control_is_switched_to_reported_and_published_in_that_order() -> None:
    loop = at_probe()
    (request,) = loop.hand_in(ProbeFinished(6.0, PATH, BBR))
    assert request == SetTransport(TransportSettings("bbr", None))
    actions = loop.hand_in(TransportApplied(TransportSettings("bbr", 4)))
    assert [type(action) for action in actions] == [ReportSwitch, ReportProbe, Publish]
    _, report, publication = actions
    assert isinstance(report, ReportProbe) and (report.sure, report.news) == (True, True)
    assert isinstance(publication, Publish) and (publication.decision.congestion_control, publication.anew) == ("bbr", True)
    assert loop.state.monitor.on_trial and loop.state.interrupted_s == loop.now_s


@pytest.mark.parametrize(
    ("answer", "why_not"),
    [
        (TransportRefused("congestion_control", "Unavailable", "not here"), "the mover did not take it"),
        (TransportFailed("no answer in time", retryable=True), "the mover did not take it"),
    ],
    ids=["refused", "unanswered"],
)
def test_a_switch_that_does_not_arrive_is_as_if_not_decided(answer: Event, why_not: str) -> None:
    loop = at_probe()
    loop.hand_in(ProbeFinished(6.0, PATH, BBR))
    actions = loop.hand_in(answer)
    assert [type(action) for action in actions] == [Warn, ReportProbe, Publish]
    publication = actions[-1]
    assert isinstance(publication, Publish) and publication.decision.congestion_control == "cubic"
    assert [(other.congestion_control, other.why_not) for other in publication.decision.rejected] == [("bbr", why_not)]
    assert loop.state.monitor.in_force == "cubic" and not loop.state.monitor.on_trial


@pytest.mark.parametrize(
    "finished",
    [ProbeFinished(6.0, PATH, UNSURE), ProbeFinished(4.0, None, None, "the transfer's own data were still arriving")],
    ids=["unsure", "failed"],
)
def test_a_probe_without_a_sure_answer_alters_nothing_and_costs_its_time(finished: ProbeFinished) -> None:
    loop = at_probe()
    actions = loop.hand_in(finished)
    assert [type(action) for action in actions] == [ReportProbe]
    assert loop.state.decision.message == "as told"
    assert not loop.state.monitor.budget.free


def found_with(loop: Loop, control: str, samples: int = 6) -> list[Decision]:
    """What is published while the sockets have another congestion control than was set."""
    loop.control = control
    return [action.decision for _ in range(samples) for action in loop.sample_answered() if isinstance(action, Publish)]


def test_what_the_sockets_have_twice_in_a_row_is_published_and_probed_again() -> None:
    loop = begun()
    for _ in range(5):
        loop.sample_answered()
    (decision,) = found_with(loop, "bbr")
    assert (decision.congestion_control, decision.rejected[0].congestion_control) == ("bbr", "cubic")
    assert decision.message == "as told; bbr: the sockets have it instead of cubic"
    assert machine.summary(loop.state).congestion_control == "bbr"
    assert loop.state.monitor.budget.doubt is ProbeReason.BARRED
    assert found_with(loop, "bbr", 20) == [], "once"


def test_the_message_does_not_grow_with_each_change_of_what_is_in_force() -> None:
    loop = begun()
    loop.sample_answered()
    lengths = []
    for _ in range(10):
        for control in ("bbr", "cubic"):
            (decision,) = found_with(loop, control)
        lengths.append(len(decision.message))
    assert decision.message.startswith("as told; ") and decision.message.endswith("; cubic: the sockets have it instead of bbr")
    assert lengths[2:] == [lengths[2]] * 8


def test_what_took_the_place_of_the_users_choice_is_published_and_left_alone() -> None:
    loop = begun(limits=replace(FIXED, congestion_control="cubic"))
    (decision,) = found_with(loop, "lp")
    assert decision.congestion_control == "lp"
    assert loop.state.monitor.budget.doubt is None


def test_sockets_that_disagree_for_a_moment_or_do_not_say_or_have_no_data_alter_nothing() -> None:
    for control, goodput_bps, samples in (("bbr", 80e6, 1), ("", 80e6, 20), ("bbr", 0.0, 20)):
        loop = begun()
        loop.goodput_bps = goodput_bps
        loop.sample_answered()
        assert found_with(loop, control, samples) == []
        assert found_with(loop, "cubic") == []


def test_a_switch_that_was_made_though_its_answer_was_lost_is_in_force() -> None:
    loop = at_probe()
    loop.hand_in(ProbeFinished(6.0, PATH, BBR))
    loop.hand_in(TransportFailed("no answer in time", retryable=True))
    assert found_with(loop, "bbr")[-1].congestion_control == "bbr"
    assert loop.state.monitor.in_force == "bbr"


def test_a_switch_that_made_things_worse_is_taken_back_after_its_trial() -> None:
    loop = at_probe()
    loop.hand_in(ProbeFinished(6.0, PATH, BBR))
    loop.hand_in(TransportApplied(TransportSettings("bbr", 4)))
    loop.goodput_bps = 3e6
    assert loop.sample_until(SetTransport) == SetTransport(TransportSettings("cubic", None))
    actions = loop.hand_in(TransportApplied(TransportSettings("cubic", 4)))
    assert [type(action) for action in actions] == [ReportSwitch, ReportVerdict, Publish]
    assert loop.state.monitor.in_force == "cubic"


@pytest.mark.parametrize(
    ("limits", "equipment", "quiet_s", "answered_ratio"),
    [
        pytest.param(replace(FIXED, congestion_control="cubic"), Equipment((5.0, 10.0), monitored=True), 0.0, 1.0, id="the user's choice"),
        pytest.param(FIXED, Equipment(None, monitored=True), 0.0, 1.0, id="no model"),
        pytest.param(FIXED, Equipment((5.0, 10.0), monitored=False), 0.0, 1.0, id="no peer"),
        pytest.param(FIXED, Equipment((5.0, 10.0), monitored=True), None, 1.0, id="a mover that cannot hold data back"),
        pytest.param(FIXED, Equipment((5.0, 10.0), monitored=True), 0.0, 0.2, id="an echo that does not answer"),
    ],
)
def test_no_data_are_held_back_where_nothing_can_follow(
    limits: TransportLimits, equipment: Equipment, quiet_s: float | None, answered_ratio: float
) -> None:
    loop = begun(limits=limits, equipment=equipment)
    loop.quiet_s, loop.answered_ratio = quiet_s, answered_ratio
    for second in range(80):
        loop.goodput_bps = 80e6 if second < 40 else 10e6
        for action in loop.sample():
            if isinstance(action, Classify):
                loop.hand_in(Classified(BBR))
    assert not any(isinstance(action, ProbePaused | SetTransport) for action in loop.actions)
    warnings = [action for action in loop.actions if isinstance(action, Warn)]
    assert len(warnings) == int(quiet_s is None)


def test_larger_buffers_are_asked_for_reported_and_published() -> None:
    loop = begun()
    loop.buffers, loop.goodput_bps = BufferLimits(4 * MIB, 64 * MIB), 4e9
    request = loop.sample_until(SetTransport)
    assert isinstance(request, SetTransport) and request.wanted.socket_buffer_bytes is not None
    actions = loop.hand_in(TransportApplied(TransportSettings("cubic", 4, request.wanted.socket_buffer_bytes)))
    assert [type(action) for action in actions[:2]] == [ReportBuffers, Publish]


def test_over_several_paths_a_stream_needs_the_buffer_of_its_part_of_all() -> None:
    needed = []
    for paths in (1, 2):
        loop = begun()
        loop.buffers, loop.goodput_bps, loop.paths = BufferLimits(4 * MIB, 64 * MIB), 4e9 * paths, paths
        request = loop.sample_until(SetTransport)
        assert isinstance(request, SetTransport)
        needed.append(request.wanted.socket_buffer_bytes)
    assert needed[0] == needed[1]


@pytest.mark.parametrize("set_bytes", [None, 2 * MIB], ids=["the kernel's own", "as they were set"])
def test_after_a_paused_probe_the_send_buffers_are_published_as_they_stand(set_bytes: int | None) -> None:
    loop = at_probe()
    limits = replace(loop.state.limits, buffers=BufferLimits(4 * MIB, 64 * MIB, set_bytes))
    measured = replace(loop.state.published, socket_buffer_bytes=set_bytes, socket_buffer_needed_bytes=MIB)
    loop.state = replace(loop.state, limits=limits, published=measured)
    far = History(capacity_bps=10e9)
    for history, needed in ((History(), MIB), (far, 37_500_000)):
        _, actions = handle(replace(loop.state, history=history), ProbeFinished(6.0, PATH, NOBODY), loop.now_s)
        (decision,) = [action.decision for action in actions if isinstance(action, Publish)]
        assert (decision.socket_buffer_bytes, decision.socket_buffer_needed_bytes) == (set_bytes, needed)
        assert "send buffer" not in decision.message


@pytest.mark.parametrize(
    ("answer", "stays"),
    [(TransportRefused("streams", "OutOfRange", "no more"), True), (TransportFailed("no answer in time", retryable=True), False)],
    ids=["refused", "unanswered"],
)
def test_a_refused_stream_count_bounds_the_search_an_unanswered_one_does_not(answer: Event, stays: bool) -> None:
    loop = begun(None, TransportLimits(1, 32), Equipment())
    request = loop.sample_until(SetTransport)
    assert isinstance(request, SetTransport) and request.wanted.streams == 8
    (warning,) = loop.hand_in(answer)
    assert isinstance(warning, Warn)
    assert (loop.state.limits.streams_maximum == 4) is stays


def beside_a_mild_step(limits: TransportLimits) -> Loop:
    """A minute after somebody took a fifth of the path and no paused probe may be taken for long."""
    loop = begun(limits=limits)
    budget = replace(loop.state.monitor.budget, not_before_s=1000.0)
    loop.state = replace(loop.state, monitor=replace(loop.state.monitor, budget=budget))
    for _ in range(40):
        loop.sample_answered()
    assert loop.streams == 4, "the queue is empty, and fewer were of no use"
    # A fifth less goodput, and a queue that stands.
    loop.goodput_bps, loop.rtt_ms = 60e6, 66.5
    for _ in range(60):
        loop.sample_answered()
    return loop


def test_the_stream_count_answers_to_a_mild_step_that_may_not_be_probed_for_long() -> None:
    loop = beside_a_mild_step(TransportLimits(1, 4))
    assert loop.streams < 4
    assert not any(isinstance(action, ProbePaused) for action in loop.actions)


def test_the_stream_count_answers_to_a_step_that_does_not_sound_like_bbr() -> None:
    loop = begun(limits=TransportLimits(1, 4))
    for _ in range(40):
        loop.sample_answered(NOBODY)
    loop.goodput_bps, loop.rtt_ms = 60e6, 66.5
    before = len(loop.actions)
    for _ in range(12):
        loop.sample_answered(seen("B0-C1"))
    assert SetTransport(TransportSettings(None, 3)) in loop.actions[before:]
    assert not any(isinstance(action, ProbePaused) for action in loop.actions)


def alone_with_one_stream() -> Loop:
    """On a clean path, of which the search has just left one stream."""
    loop = begun(limits=TransportLimits(1, 4))
    loop.rtt_ms = 66.5
    for _ in range(60):
        loop.sample_answered(NOBODY)
        if loop.state.search is not None and loop.state.search.streams == 1:
            return loop
    raise AssertionError("more than one stream after a minute")


def test_bbr_that_comes_soon_after_the_last_stream_that_left_is_probed_for_at_once() -> None:
    loop = alone_with_one_stream()
    for _ in range(18):
        loop.sample_answered(NOBODY)
    loop.goodput_bps = 15e6
    came_s = loop.now_s
    while loop.state.pending is None:
        assert loop.now_s < came_s + 12, "no paused probe"
        loop.sample_answered()
    assert isinstance(loop.state.pending, AwaitsProbe) and loop.state.pending.why is ProbeReason.CHANGED


@pytest.mark.parametrize(
    ("control", "kept", "goodput_bps", "stays"),
    [
        pytest.param("cubic", 3, 79e6, True, id="fewer have what there was"),
        pytest.param("cubic", 3, 60e6, False, id="fewer have less"),
        pytest.param("cubic", 5, 80e6, False, id="more have a longer queue"),
        pytest.param("bbr", 3, 80e6, False, id="with BBR a shorter queue is awaited"),
    ],
)
def test_what_is_usual_stays_so_only_where_another_count_cannot_look_like_an_awaited_step(
    control: str, kept: int, goodput_bps: float, stays: bool
) -> None:
    loop = begun()
    for _ in range(40):
        loop.sample_answered()
    state = replace(loop.state, monitor=replace(loop.state.monitor, switching=SwitchState(control)))
    trial = CountTrial(CountScore(kept, goodput_bps, 0.0, 1.0, 3.0), CountScore(4, 80e6, 0.0, 1.0, 3.0), kept, "")
    moved = monitoring.streams_moved(state, loop.now_s, trial)
    assert moved.monitor.detector.knows_usual is stays


def test_the_queue_of_more_streams_that_were_tried_and_taken_back_is_no_change_of_the_path() -> None:
    loop = begun(limits=TransportLimits(1, 32))
    tried = set()
    for _ in range(200):
        # Eight streams have what there is; more bring only a longer queue, which drains for some seconds.
        loop.goodput_bps = 10e6 * min(loop.streams, 8)
        loop.rtt_ms = 75.0 if loop.streams > 8 else max(61.0, loop.rtt_ms - 5.0)
        tried.add(loop.streams)
        loop.sample_answered()
    assert max(tried) > 8
    assert loop.streams == 8
    assert not any(isinstance(action, ProbePaused) for action in loop.actions)


def test_own_bbr_that_never_hears_another_one_is_doubted_and_probed_when_that_is_earned() -> None:
    decision = replace(begun(BBR).state.decision, congestion_control="bbr")
    loop = Loop(begin(PATH, decision, FIXED, History(), Equipment((5.0, 10.0), monitored=True), applied=True, now_s=0.0, now=NOW))
    while loop.state.pending is None:
        assert loop.now_s < 600, "no paused probe"
        loop.sample_answered(BBR)
    assert isinstance(loop.state.pending, AwaitsProbe) and loop.state.pending.why is ProbeReason.UNANSWERED
    assert loop.now_s >= 350, "it is paid from two per cent of the time"


def test_a_change_that_waits_for_its_probe_is_not_forgotten_over_a_search_for_streams() -> None:
    loop = beside_a_mild_step(TransportLimits(1, 4))
    assert loop.state.monitor.budget.doubt is ProbeReason.UNANSWERED
    loop.now_s = 1000.0
    assert isinstance(loop.sample_answered()[-1], ProbePaused)
    pending = loop.state.pending
    assert isinstance(pending, AwaitsProbe) and pending.why is ProbeReason.UNANSWERED


def test_a_change_that_waits_for_its_probe_is_not_forgotten_over_another_cap() -> None:
    loop = beside_a_mild_step(FIXED)
    assert loop.state.monitor.detector.change is not None
    assert loop.state.monitor.budget.doubt is None
    loop.cap_bps = loop.goodput_bps = 30e6
    loop.sample_answered()
    assert loop.state.monitor.detector.change is None
    assert loop.state.monitor.budget.doubt is ProbeReason.UNANSWERED


def test_fewer_streams_of_our_own_leave_no_doubt_of_the_path() -> None:
    loop = begun(limits=TransportLimits(1, 4))
    loop.rtt_ms = 66.5
    for second in range(200):
        loop.goodput_bps = 20e6 * loop.streams if second > 30 else 80e6
        loop.sample_answered()
    assert loop.streams == 1
    assert loop.state.monitor.budget.doubt is None


def test_others_that_a_probe_finds_end_a_rest_from_before_they_came() -> None:
    loop = begun(limits=TransportLimits(1, 4))
    for _ in range(300):
        # Each stream is held to a rate that leaves room on the path: fewer did not fill it.
        loop.goodput_bps = 20e6 * loop.streams
        loop.sample_answered()
    search = loop.state.search
    assert search is not None and search.streams == 4
    loop.state = replace(loop.state, search=replace(search, needed_for_bps=80e6, rest_s=240.0, rests_until_s=loop.now_s + 240.0))
    loop.goodput_bps, loop.rtt_ms = 64e6, 66.5
    for _ in range(20):
        if isinstance(loop.sample_answered()[-1], ProbePaused):
            break
    loop.hand_in(ProbeFinished(6.0, PATH, seen("B0-C1")))
    for _ in range(40):
        loop.goodput_bps = 80e6 * loop.streams / (loop.streams + 1)
        loop.sample_answered()
    assert loop.streams == 1


@pytest.mark.parametrize(("allocated", "kept"), [(True, 2), (False, 1)], ids=["a policy's share", "a limit"])
def test_beside_others_a_share_that_a_policy_allocated_is_not_given_away(allocated: bool, kept: int) -> None:
    loop = begun(seen("C1-C1"), TransportLimits(1, 4, allocated=allocated))
    loop.cap_bps, loop.rtt_ms = 500e6, 66.5
    for _ in range(300):
        # The part of so many flows beside two others, of 1 Gb/s.
        loop.goodput_bps = min(0.95 * loop.cap_bps, 960e6 * loop.streams / (loop.streams + 2))
        loop.sample_answered()
    assert loop.state.search is not None and loop.state.search.streams == kept


def rerouted(background: Background) -> Loop:
    """Another route is a sixth longer, and a paused probe finds `background` on it; the kernel still has the least RTT of the old one."""
    loop = begun(limits=TransportLimits(1, 4))
    for _ in range(40):
        loop.sample_answered()
    loop.rtt_ms = 70.0
    for _ in range(20):
        if any(isinstance(action, ProbePaused) for action in loop.sample_answered()):
            loop.hand_in(ProbeFinished(6.0, replace(PATH, rtt_s=0.07, rtt_minimum_s=0.07), background))
            return loop
    raise AssertionError("no paused probe")


def test_a_longer_route_on_which_nobody_is_is_not_taken_for_a_queue() -> None:
    loop = rerouted(NOBODY)
    for _ in range(60):
        loop.sample_answered()
    assert (loop.state.floor_s, loop.streams) == (0.07, 4)
    loop.rtt_ms = 65.0
    loop.sample_answered()
    assert loop.state.floor_s == 0.065, "the echo may find less again"


def test_what_a_probe_finds_beside_others_has_their_queue_in_it() -> None:
    loop = rerouted(seen("B0-C1"))
    for _ in range(60):
        loop.sample_answered()
    assert (loop.state.floor_s, loop.streams) == (0.06, 1)


@pytest.mark.parametrize(("rtts_ms", "floor_s"), [((61.0,) * 10, 0.06), ((), 0.02)], ids=["an echo", "no echo"])
def test_beside_the_echo_of_one_path_the_least_rtt_is_not_that_of_another(rtts_ms: tuple[float, ...], floor_s: float) -> None:
    loop = begun()
    for second in range(1, 5):
        streams = (StreamStats(0, second, 0, 0.061, 0.06, path=0), StreamStats(1, second, 0, 0.021, 0.02, path=1))
        loop.now_s = float(second)
        loop.hand_in(Sampled(MoverStats("Transferring", frozenset({"cubic"}), streams), rtts_ms))
    assert loop.state.floor_s == floor_s


def test_nothing_is_learnt_while_data_are_held_back_by_a_mover_that_missed_the_release() -> None:
    loop = begun()
    for _ in range(20):
        loop.sample_answered()
    before = loop.state.monitor.detector
    loop.goodput_bps, loop.quiet_s = 0.0, 8.0
    for _ in range(8):
        loop.sample_answered()
    loop.quiet_s = 0.0
    loop.sample_answered()
    assert loop.state.monitor.detector == before
    loop.goodput_bps = 80e6
    loop.sample_answered()
    assert loop.state.monitor.detector.recent[-1].goodput_bps == pytest.approx(80e6)


def test_samples_are_rarer_once_nothing_is_tried_and_a_step_could_be_told_from_what_was_before() -> None:
    loop = begun()
    assert sampling_period_s(loop.state) == PERIOD_S
    for _ in range(26):
        loop.sample_answered()
        assert sampling_period_s(loop.state) == PERIOD_S
    loop.sample_answered(), loop.sample_answered()
    assert sampling_period_s(loop.state) == REST_PERIOD_S
    assert machine.summary(loop.state).congestion_control == "cubic"


def test_the_summary_has_for_how_long_cap_and_source_held_the_transfer_back() -> None:
    loop = begun(None, equipment=Equipment((5.0, 10.0), monitored=False))
    loop.sample()
    for cap_bps, busy_ratio in ((80e6, 1.0), (None, 1.0), (200e6, 0.2), (None, 1.0)):
        loop.cap_bps, loop.busy_ratio = cap_bps, busy_ratio
        loop.sample()
    outcome = machine.summary(loop.state)
    assert (outcome.cap_limited_ratio, outcome.source_limited_ratio) == (0.25, pytest.approx(0.2))


def test_a_transfer_without_a_sample_does_not_say_what_held_it_back() -> None:
    outcome = machine.summary(begun().state)
    assert (outcome.cap_limited_ratio, outcome.source_limited_ratio) == (None, None)
