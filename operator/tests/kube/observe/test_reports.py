"""How long an advisor has been silent, as looks at its sender tell. Polling over real sockets is tested against the API server."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from fairlead.core.observed import MoverPod, PodPhase, Role
from fairlead.kube.observe.pods import OFFSETS, PORT_ADVISOR, PORT_HTTP
from fairlead.kube.observe.reports import ReportReader

pytestmark = pytest.mark.asyncio

BASE = 24004
CHOICE = {"protocol": "TCP", "congestion_control": "cubic", "streams": 4, "abstained": True, "reason": "NoModel"}
DECISION = {"version": 1, "path": {}, "decision": {**CHOICE, "decided_at": "2026-01-01T00:00:00Z"}}


class Scripted(ReportReader):
    """A reader whose movers and advisors answer what a test puts here, by port and path; what is missing is a 503."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.answers: dict[tuple[int, str], Any] = {}
        super().__init__(range(24000, 26000), wall=lambda: self.now)

    async def _fetch(self, url: str) -> bytes | None:
        host, _, path = url.removeprefix("http://").partition("/")
        answer = self.answers.get((int(host.rpartition(":")[2]), f"/{path}"))
        if isinstance(answer, Exception):
            raise answer
        return None if answer is None else json.dumps(answer).encode()

    def says(self, stage: str | None, decision: Any, *, attempt: int = 1) -> None:
        counted = {"bytes_transferred": 5, "files_transferred": 0, "rate_bytes_per_second": 1.0}
        said = {"role": "sender", "job": "job-uid", "attempt": attempt, "stage": stage, **counted}
        self.answers = {
            (BASE + OFFSETS[PORT_HTTP], "/v1/progress"): said if stage else TimeoutError(),
            (BASE + OFFSETS[PORT_ADVISOR], "/v1/decision"): decision,
        }


def _sender(attempt: int = 1, **fields: Any) -> MoverPod:
    values: dict[str, Any] = {
        "name": "s",
        "uid": f"sender-{attempt}",
        "resource_version": "1",
        "phase": PodPhase.RUNNING,
        "ready": True,
        "deleting": False,
        "created_at": datetime(2026, 1, 1, tzinfo=UTC),
        "node": "dtn-a",
        "address": "198.18.0.1",
        "port_base": BASE,
        "verdict": None,
    }
    return MoverPod(role=Role.SENDER, attempt=attempt, **(values | fields))


async def _looks(reader: Scripted, *looks: tuple[str | None, Any]) -> list[float]:
    """The silence at each look, ten seconds apart."""
    found = []
    for stage, decision in looks:
        reader.says(stage, decision)
        found.append((await reader.read("job-uid", [_sender()])).advisor_silent_seconds)
        reader.now += 10.0
    return found


FLOWS = "Transferring"


@pytest.mark.parametrize(
    "silence", [TimeoutError(), ConnectionRefusedError(), None, {"version": 2}], ids=["hung", "dead", "503", "strange"]
)
async def test_an_advisor_is_silent_since_data_was_first_seen_to_flow_without_its_decision(silence: Any) -> None:
    looks = (("AwaitingTransport", silence), (FLOWS, silence), (FLOWS, silence), (FLOWS, silence))
    assert await _looks(Scripted(), *looks) == [0.0, 0.0, 10.0, 20.0]


async def test_a_word_of_the_advisor_or_the_end_of_the_data_ends_its_silence() -> None:
    dead = TimeoutError()
    for end in ((FLOWS, DECISION), ("Verifying", dead)):
        assert await _looks(Scripted(), (FLOWS, dead), (FLOWS, dead), end, (FLOWS, dead), (FLOWS, dead)) == [0.0, 10.0, 0.0, 0.0, 10.0]


async def test_a_sender_that_is_silent_itself_does_not_accuse_its_advisor() -> None:
    dead = TimeoutError()
    assert await _looks(Scripted(), (None, dead), (None, dead), (FLOWS, dead), (None, dead)) == [0.0, 0.0, 0.0, 0.0]


async def test_each_attempt_has_an_advisor_of_its_own() -> None:
    reader, dead = Scripted(), TimeoutError()
    await _looks(reader, (FLOWS, dead), (FLOWS, dead))
    reader.says(FLOWS, dead, attempt=2)
    assert (await reader.read("job-uid", [_sender(2)])).advisor_silent_seconds == 0.0
