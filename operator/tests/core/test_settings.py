"""The pause after a failed attempt."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import pytest
from job_builders import seconds

from fairlead.core.settings import delay_after

FIRST, MOST = timedelta(seconds=10), timedelta(minutes=5)


class TestBackoff:
    @pytest.mark.parametrize(("failures", "pause"), [(0, 10), (1, 10), (2, 20), (3, 40), (5, 160), (6, 300), (100, 300), (10**9, 300)])
    def test_the_pause_doubles_up_to_its_bound(self, failures: int, pause: int) -> None:
        assert delay_after(failures, first=FIRST, most=MOST) == seconds(pause)


def test_pauses_never_shrink() -> None:
    pauses = [delay_after(failures, first=FIRST, most=MOST) for failures in range(1, 20)]
    assert all(earlier <= later for earlier, later in pairwise(pauses))
