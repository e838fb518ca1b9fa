from __future__ import annotations

import pytest

from fairlead.core.election import LEADS_SECONDS, LEASE_SECONDS, LOOK_SECONDS, RENEW_SECONDS, Contender, LeaseFacts, Step

NOW = 1000.0
OURS, THEIRS, RELEASED = LeaseFacts("us", "7"), LeaseFacts("them", "7"), LeaseFacts("", "7", 1.0)
STANDBY = Contender("us")
LED = STANDBY.holding(LeaseFacts("us", "5"), NOW)


@pytest.mark.parametrize(
    ("contender", "lease", "seconds_later", "step"),
    [
        (STANDBY, None, 0.0, Step.CREATE),
        (LED, None, 0.0, Step.CREATE),
        (STANDBY, RELEASED, 0.0, Step.TAKE),
        (STANDBY, THEIRS, 0.0, Step.WAIT),
        (STANDBY, THEIRS, LEASE_SECONDS - 0.1, Step.WAIT),
        (STANDBY, THEIRS, LEASE_SECONDS, Step.TAKE),
        (STANDBY, LeaseFacts("them", "7", 60.0), LEASE_SECONDS, Step.WAIT),
        (STANDBY, OURS, 0.0, Step.RENEW),
        (LED, OURS, 3600.0, Step.RENEW),
        (LED, THEIRS, 0.0, Step.LOST),
        (LED, THEIRS, 3600.0, Step.LOST),
        (LED, RELEASED, 0.0, Step.LOST),
    ],
    ids=[
        "there is none",
        "it was deleted",
        "it was given up",
        "another one's",
        "another one's that is nearly over",
        "another one's that is over",
        "another one's that lasts longer",
        "ours, of the container before",
        "ours, although it is long over: nobody has led since",
        "another one has led since",
        "another one has led since, long ago",
        "another one has led since and is gone",
    ],
)
def test_what_to_do_about_the_lease(contender: Contender, lease: LeaseFacts | None, seconds_later: float, step: Step) -> None:
    seen = contender.seeing(lease, NOW)
    assert seen.seeing(lease, NOW + seconds_later).step(lease, NOW + seconds_later) is step


def test_a_renewal_is_waited_for_anew() -> None:
    seen = STANDBY.seeing(THEIRS, NOW)
    renewed = LeaseFacts("them", "8")
    seen = seen.seeing(renewed, NOW + LEASE_SECONDS - 1.0)
    assert seen.step(renewed, NOW + LEASE_SECONDS) is Step.WAIT


@pytest.mark.parametrize(("seconds_later", "may"), [(0.0, True), (LEADS_SECONDS - 0.1, True), (LEADS_SECONDS, False), (3600.0, False)])
def test_writes_are_allowed_for_a_while_after_a_renewal_was_sent(seconds_later: float, may: bool) -> None:
    assert LED.may_write(NOW + seconds_later) is may


def test_who_has_not_led_may_not_write() -> None:
    assert not STANDBY.may_write(NOW)


def test_the_one_stops_before_the_other_begins_and_a_renewal_may_fail_twice() -> None:
    assert LEADS_SECONDS + 2.0 < LEASE_SECONDS
    assert 3 * RENEW_SECONDS < LEADS_SECONDS
    assert LEASE_SECONDS + 2 * LOOK_SECONDS <= 15.0
