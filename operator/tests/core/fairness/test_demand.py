"""When a job counts as limited by itself, and when no longer."""

from __future__ import annotations

import math

import pytest
from fairness_builders import M

from fairlead.core.fairness.demand import PATIENCE_SECONDS, WANTING_SECONDS, Demand, JobUsage

NOW = 1000.0


class TestDemand:
    CAP = 100 * M

    @pytest.mark.parametrize(
        ("before", "used", "passed", "expected"),
        [
            ("unbounded, uses all", 99, 0, math.inf),
            ("unbounded, uses half, just now", 50, 0, math.inf),
            ("unbounded, uses half for long", 50, PATIENCE_SECONDS, 60),
            ("unbounded, between", 85, PATIENCE_SECONDS, math.inf),
        ],
    )
    def test_a_job_is_limited_only_by_leaving_something_for_a_while(self, before: str, used: float, passed: float, expected: float) -> None:
        since = NOW - passed if passed else None
        demand = Demand(since=since).after(JobUsage(used * M, used * M), self.CAP, NOW)
        assert demand.most_bps == (expected * M if expected < math.inf else math.inf), before

    def test_a_limited_job_that_uses_all_it_may_for_two_rounds_is_free(self) -> None:
        limited, all_of_it = Demand(60 * M, NOW - 60), JobUsage(60 * M, 50 * M)
        wants = limited.after(all_of_it, 60 * M, NOW)
        assert wants == Demand(60 * M, NOW - 60, wants_since=NOW)
        assert wants.after(all_of_it, 60 * M, NOW + 2) == wants
        assert wants.after(all_of_it, 60 * M, NOW + WANTING_SECONDS) == Demand()
        assert wants.after(JobUsage(50 * M, 50 * M), 60 * M, NOW + WANTING_SECONDS) == limited

    def test_small_changes_of_what_a_limited_job_uses_change_nothing(self) -> None:
        demand = Demand(60 * M, NOW - 60)
        assert demand.after(JobUsage(45 * M, 45 * M), self.CAP, NOW) == demand

    def test_a_job_that_sends_next_to_nothing_does_not_want_more_by_a_little_more_of_it(self) -> None:
        idle = Demand(since=NOW - 60).after(JobUsage(8_000, 8_000), self.CAP, NOW, least_bps=M)
        assert idle.most_bps == M
        assert idle.after(JobUsage(20_000, 10_000), self.CAP, NOW + WANTING_SECONDS, least_bps=M) == idle

    def test_a_rate_that_still_rises_is_not_a_limit(self) -> None:
        assert Demand(since=NOW - 60).after(JobUsage(50 * M, 30 * M), self.CAP, NOW) == Demand()

    def test_nothing_is_concluded_from_nothing(self) -> None:
        demand = Demand(5 * M, NOW)
        assert demand.after(None, self.CAP, NOW) == demand
        assert demand.after(JobUsage(1, 1), None, NOW) == demand

    @pytest.mark.parametrize(
        ("cap", "used", "expected"),
        [
            ("below the limit, all used", 29, 60),
            ("below, part used", 26, 60),
            ("below, little used", 10, 12),
            ("near it", 59, 60),
            ("at it", 60, 60),
        ],
    )
    def test_a_limited_job_stays_so_while_a_lower_cap_hides_what_it_could_use(self, cap: str, used: float, expected: float) -> None:
        cap_bps = (60 if cap.endswith(" it") else 30) * M
        assert Demand(60 * M, NOW - 60).after(JobUsage(used * M, used * M), cap_bps, NOW).most_bps == expected * M
