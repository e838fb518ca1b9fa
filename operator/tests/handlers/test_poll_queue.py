"""Who has the next turn to be polled, and when."""

from __future__ import annotations

from fairlead.handlers.poll_queue import BURST_SECONDS, PollQueue


def taken(queue: PollQueue, now: float) -> list[str]:
    found = []
    while (uid := queue.take(now)) is not None:
        found.append(uid)
    return found


def test_of_one_tenant_the_least_rank_has_the_first_turn() -> None:
    queue = PollQueue(100.0)
    for uid, rank in (("c", 3.0), ("a", 1.0), ("b", 2.0)):
        queue.add(uid, "lab", rank)
    assert taken(queue, 0.0) == ["a", "b", "c"]


def test_tenants_take_turns_whatever_their_ranks_are() -> None:
    queue = PollQueue(100.0)
    for number in range(3):
        queue.add(f"big-{number}", "big", 0.0)
    queue.add("small", "small", 99.0)
    assert taken(queue, 0.0) == ["big-0", "small", "big-1", "big-2"]


def test_a_job_waits_once_with_its_last_rank_and_not_at_all_once_it_is_dropped() -> None:
    queue = PollQueue(100.0)
    queue.add("a", "lab", 1.0)
    queue.add("b", "lab", 2.0)
    queue.add("gone", "lab", 0.0)
    queue.add("a", "lab", 3.0)
    queue.drop("gone")
    queue.drop("never there")
    assert len(queue) == 2
    assert taken(queue, 0.0) == ["b", "a"]
    assert (len(queue), queue.wait_seconds(0.0)) == (0, None)


def test_no_more_than_so_many_have_their_turn_in_a_second_and_few_at_once() -> None:
    queue = PollQueue(10.0)
    for number in range(100):
        queue.add(str(number), "lab", float(number))
    assert len(taken(queue, 1000.0)) <= 1 + 10 * BURST_SECONDS
    wait_seconds = queue.wait_seconds(1000.0)
    assert wait_seconds is not None
    assert 0.0 < wait_seconds < 0.11
    assert taken(queue, 1000.0 + 0.9 * wait_seconds) == []
    assert len(taken(queue, 1000.0 + 1.1 * wait_seconds)) == 1
    assert sum(len(taken(queue, 1000.0 + tenths / 10)) for tenths in range(2, 51)) in range(47, 52)


def test_turns_that_nobody_took_are_not_saved_up() -> None:
    queue = PollQueue(10.0)
    for number in range(100):
        queue.add(str(number), "lab", float(number))
    taken(queue, 0.0)
    assert len(taken(queue, 500.0)) <= 1 + 10 * BURST_SECONDS
