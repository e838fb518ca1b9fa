"""The sidecar as a whole, beside a model of a mover."""

import asyncio
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from fairlead_advisor.decide.model import History, TransportLimits
from fairlead_advisor.record.board import DecisionBoard
from fairlead_advisor.record.journal import Journal
from fairlead_advisor.record.metrics import AdvisorMetrics
from fairlead_advisor.steer.effects import SidecarEffects
from fairlead_advisor.steer.known import KnownPath
from fairlead_advisor.steer.sidecar import Files, Sidecar
from tests.steer.conftest import EPOCH
from tests.support.model_mover import Clock, MetMover, QuietPath, StillPath


def begun(folder: Path, known: KnownPath) -> DecisionBoard:
    """The board of a sidecar that has begun on a path whose RTT is 60 ms now."""
    clock = Clock(5.0)

    def now() -> datetime:
        return EPOCH + timedelta(seconds=clock.now_s)

    effects = SidecarEffects(QuietPath(clock).probe, lambda _peer: StillPath(), now, monotonic_s=lambda: clock.now_s, sleep=clock.sleep)
    journal = Journal(folder / "decisions.jsonl", now)
    board = DecisionBoard(AdvisorMetrics(), journal, now)
    files = Files(folder / "trace.csv", journal)
    mover = MetMover(clock, stage="AwaitingTransport")
    sidecar = Sidecar(mover, effects, board, TransportLimits(), history=History(), files=files, probe_s=10.0, known=known)
    with pytest.raises(ExceptionGroup):
        asyncio.run(sidecar.run())
    return board


@pytest.mark.parametrize(("beside_own", "least_s"), [(True, 0.05), (False, 0.06)])
def test_a_glance_beside_our_own_transfers_keeps_the_known_least_rtt(tmp_path: Path, beside_own: bool, least_s: float) -> None:
    published = begun(tmp_path, KnownPath(0.05, None, beside_own)).published
    assert published is not None
    assert (published.path.rtt_s, published.path.rtt_minimum_s) == (0.06, least_s)
