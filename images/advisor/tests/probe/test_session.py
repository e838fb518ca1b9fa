from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_advisor.probe.session import DatagramVerdict, ProbeSession
from fairlead_advisor.probe.wire import Codec
from tests.support.echo_server import KEY, OTHER_KEY, reply_to

MS = 1_000_000
START = 5_000 * MS


@pytest.fixture
def session() -> ProbeSession:
    return ProbeSession(Codec(KEY))


def test_a_reply_becomes_a_sample_with_its_round_trip_time(session: ProbeSession) -> None:
    first, second = session.request(START), session.request(START + 50 * MS)
    assert session.receive(reply_to(second), START + 110 * MS) is DatagramVerdict.SAMPLE
    assert session.receive(reply_to(first), START + 120 * MS) is DatagramVerdict.SAMPLE
    assert list(session.trace().rows()) == [(0.0, 120.0), (0.05, 60.0)]
    assert session.deadline_ns is None


def test_a_request_without_a_reply_is_a_lost_row(session: ProbeSession) -> None:
    session.request(START)
    assert list(session.trace().rows()) == [(0.0, None)]


def test_the_second_reply_to_a_request_is_a_duplicate_and_changes_nothing(session: ProbeSession) -> None:
    request = session.request(START)
    session.receive(reply_to(request), START + 10 * MS)
    assert session.receive(reply_to(request), START + 20 * MS) is DatagramVerdict.DUPLICATE
    assert session.counters.duplicate == 1
    assert list(session.trace().rows()) == [(0.0, 10.0)]


def test_a_reply_after_the_timeout_is_late_and_the_row_stays_lost(session: ProbeSession) -> None:
    request = session.request(START)
    assert session.receive(reply_to(request), START + 2000 * MS + 1) is DatagramVerdict.LATE
    assert session.counters.late == 1
    assert list(session.trace().rows()) == [(0.0, None)]
    assert session.deadline_ns is None


def test_strangers_datagrams_are_counted_as_foreign(session: ProbeSession) -> None:
    other = ProbeSession(Codec(KEY))
    request = session.request(START)
    stale = other.request(START - 1)
    ahead = [other.request(START) for _ in range(2)][-1]
    for datagram in (b"", b"x" * 48, request, reply_to(request, OTHER_KEY), reply_to(stale), reply_to(ahead), reply_to(request) + b"\0"):
        assert session.receive(datagram, START + 10 * MS) is DatagramVerdict.FOREIGN
    assert session.receive(reply_to(request), START - 1) is DatagramVerdict.FOREIGN
    assert session.counters.foreign == 8
    assert list(session.trace().rows()) == [(0.0, None)]


def test_a_withdrawn_request_leaves_no_row(session: ProbeSession) -> None:
    session.request(START)
    session.request(START + 50 * MS)
    session.withdraw()
    again = session.request(START + 100 * MS)
    session.receive(reply_to(again), START + 130 * MS)
    assert list(session.trace().rows()) == [(0.0, None), (0.1, 30.0)]


def test_the_deadline_is_two_seconds_after_the_newest_request_without_an_answer(session: ProbeSession) -> None:
    assert session.deadline_ns is None
    session.request(START)
    newest = session.request(START + 50 * MS)
    assert session.deadline_ns == START + 2050 * MS
    session.receive(reply_to(newest), START + 60 * MS)
    assert session.deadline_ns == START + 2000 * MS


@given(st.lists(st.binary(max_size=64)))
def test_arbitrary_datagrams_never_make_a_sample(datagrams: list[bytes]) -> None:
    session = ProbeSession(Codec(KEY))
    session.request(START)
    for datagram in datagrams:
        session.receive(datagram, START + MS)
    assert list(session.trace().rows()) == [(0.0, None)]
    assert session.counters.foreign == len(datagrams)


def test_a_bounded_session_keeps_the_newest_requests_and_their_replies() -> None:
    session = ProbeSession(Codec(KEY), capacity=3)
    requests = [session.request(index * 1_000) for index in range(5)]
    assert session.receive(reply_to(requests[0]), 9_000) is DatagramVerdict.LATE
    assert session.receive(reply_to(requests[2]), 9_000) is DatagramVerdict.SAMPLE
    assert session.receive(reply_to(requests[4]), 9_000) is DatagramVerdict.SAMPLE
    assert [rtt_ms for _, rtt_ms in session.trace().rows()] == [0.007, None, 0.005]


def test_a_withdrawn_request_leaves_its_number_to_the_next() -> None:
    session = ProbeSession(Codec(KEY), capacity=3)
    session.request(0)
    session.withdraw()
    request = session.request(1_000)
    assert session.receive(reply_to(request), 2_000) is DatagramVerdict.SAMPLE


def test_a_reply_belongs_to_the_time_in_which_it_came(session: ProbeSession) -> None:
    requests = [session.request(START + index * 400 * MS) for index in range(4)]
    for request, rtt_ms in zip(requests, (600, 1100, 2100, 100), strict=True):
        session.receive(reply_to(request), START + requests.index(request) * 400 * MS + rtt_ms * MS)
    moments = [START, START + 600 * MS, START + 1000 * MS, START + 1500 * MS, START + 4000 * MS]
    assert [session.replied(after, until) for after, until in pairwise(moments)] == [[600 * MS], [], [1100 * MS, 100 * MS], []]


def test_recent_samples_are_those_whose_fate_is_known() -> None:
    session = ProbeSession(Codec(KEY), reply_timeout_ns=10_000)
    requests = [session.request(index * 4_000) for index in range(6)]
    session.receive(reply_to(requests[4]), 17_000)
    # At 21 us: the requests of 4 and 8 us are lost, of 12 us not yet known, of 16 us answered.
    assert [rtt_ms for _, rtt_ms in session.recent(4_000, 21_000).rows()] == [None, None, 0.001]
    assert len(session.recent(100_000, 200_000)) == 0
