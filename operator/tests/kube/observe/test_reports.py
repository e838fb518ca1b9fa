"""How long an advisor has been silent, as looks at its sender tell. Polling over real sockets is tested against the API server."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest

from fairlead.core.observed import MoverPod, PodPhase, Role
from fairlead.core.reports import InterfaceTraffic, Reports
from fairlead.kube.observe.fetch import FetchError
from fairlead.kube.observe.pods import OFFSETS, PORT_ADVISOR, PORT_HTTP
from fairlead.kube.observe.reports import MOST_EXCUSED, SETTLED_SECONDS, UNSETTLED_SECONDS, ReportReader

pytestmark = pytest.mark.asyncio

BASE = 24004
CHOICE = {"protocol": "TCP", "congestion_control": "cubic", "streams": 4, "abstained": True, "reason": "NoModel"}
DECISION = {"version": 1, "path": {}, "decision": {**CHOICE, "decided_at": "2026-01-01T00:00:00Z"}}


class Scripted(ReportReader):
    """A reader whose movers and advisors answer what a test puts here, by port and path; what is missing is a 503."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.answers: dict[tuple[int, str], Any] = {}
        self.is_late = False
        super().__init__(range(24000, 26000), wall=lambda: self.now, was_late=lambda seconds: self.is_late)

    async def _fetch(self, host: str, port: int, path: str, most_bytes: int) -> bytes | None:
        answer = self.answers.get((port, path))
        if isinstance(answer, Exception):
            is_costly, is_timeout = not isinstance(answer, ConnectionRefusedError), isinstance(answer, TimeoutError)
            raise FetchError(str(answer), is_costly=is_costly, is_timeout=is_timeout)
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


async def test_nothing_is_kept_of_a_job_that_is_forgotten() -> None:
    reader = Scripted()
    await _looks(reader, (FLOWS, TimeoutError()), (FLOWS, TimeoutError()))
    reader.forget("job-uid")
    assert not reader._silences._since


RECEIVER = {"role": "receiver", "job": "job-uid", "attempt": 1, "stage": FLOWS, "files_transferred": 0, "rate_bytes_per_second": 1.0}
PROGRESS = BASE + OFFSETS[PORT_HTTP], "/v1/progress"
ENDPOINT = BASE + OFFSETS[PORT_HTTP], "/v1/endpoint"
RECEIVERS_ENDPOINT = {"role": "receiver", "interface": "data0", "address": "198.19.0.2", "port": 24000}


def _receiver(**fields: Any) -> MoverPod:
    return replace(_sender(), role=Role.RECEIVER, **fields)


async def test_the_last_good_report_counts_for_half_a_minute_and_tells_its_age() -> None:
    reader = Scripted()
    reader.answers = {PROGRESS: RECEIVER | {"bytes_transferred": 5}}
    assert (await reader.read("job-uid", [_receiver()])).receiver_age_seconds == 0.0
    for bad in (TimeoutError(), None, RECEIVER | {"bytes_transferred": -1}):
        reader.now += 9.0
        reader.answers = {PROGRESS: bad}
        reports = await reader.read("job-uid", [_receiver()])
        assert reports.receiver is not None
        assert reports.receiver.bytes_transferred == 5
    assert reports.receiver_age_seconds == 27.0
    assert reports == reader.known("job-uid", [_receiver()])
    reader.now += 4.0
    assert reader.known("job-uid", [_receiver()]).receiver is None


async def test_a_report_counts_until_the_mover_is_asked_again_however_long_that_takes_and_for_a_while_more_if_in_vain() -> None:
    reader = Scripted()
    reader.answers = {PROGRESS: RECEIVER | {"bytes_transferred": 5}, ENDPOINT: RECEIVERS_ENDPOINT}
    await reader.read("job-uid", [_receiver()])
    reader.now += 200.0
    reports = reader.known("job-uid", [_receiver()])
    assert reports.receiver is not None
    assert (reports.receiver_age_seconds, reports.unheard_seconds) == (200.0, None)
    reader.answers = {PROGRESS: TimeoutError()}
    await reader.read("job-uid", [_receiver()])
    for seconds, is_known in ((0.0, True), (19.0, True), (20.0, False)):
        reports = _later(reader, seconds)
        assert (reports.receiver is not None, reports.receiver_unheard_seconds) == (is_known, seconds)
    reader.answers = {PROGRESS: RECEIVER | {"bytes_transferred": 6}, ENDPOINT: RECEIVERS_ENDPOINT}
    assert (await reader.read("job-uid", [_receiver()])).unheard_seconds is None
    reader.answers = {PROGRESS: RECEIVER | {"bytes_transferred": 7}}
    reader.now += 900.0
    assert (await reader.read("job-uid", [_receiver()])).unheard_seconds == 0.0, "its endpoint was asked for in vain"


def _later(reader: Scripted, seconds: float) -> Reports:
    """What is known so long after the first poll in vain."""
    reader.now = 1200.0 + seconds
    return reader.known("job-uid", [_receiver()])


@pytest.mark.parametrize("answer", [TimeoutError(), ConnectionRefusedError(), None, {"version": 2}], ids=["hung", "dead", "503", "strange"])
async def test_an_advisor_that_gives_no_decision_is_asked_in_vain_as_is_a_sender_that_gives_no_progress(answer: Any) -> None:
    reader = Scripted()
    reader.says(FLOWS, answer)
    assert (await reader.read("job-uid", [_sender()])).advisor_unheard_seconds == 0.0
    reader.answers = {PROGRESS: answer, (BASE + OFFSETS[PORT_ADVISOR], "/v1/decision"): DECISION}
    reader.now += 40.0
    reports = await reader.read("job-uid", [_sender()])
    assert (reports.sender_unheard_seconds, reports.advisor_unheard_seconds, reports.unheard_seconds) == (0.0, None, 0.0)


async def test_a_mover_that_answers_for_another_job_is_asked_in_vain() -> None:
    reader = Scripted()
    reader.answers = {PROGRESS: RECEIVER | {"bytes_transferred": 5, "job": "another"}}
    reports = await reader.read("job-uid", [_receiver()])
    assert (reports.receiver, reports.receiver_unheard_seconds) == (None, 0.0)


async def test_what_a_pod_reported_is_never_taken_for_another_pods() -> None:
    reader = Scripted()
    reader.answers = {PROGRESS: RECEIVER | {"bytes_transferred": 5}}
    assert (await reader.read("job-uid", [_receiver()])).receiver is not None
    assert reader.known("job-uid", [_receiver(uid="receiver-2")]).receiver is None
    assert reader.known("another-job", [_receiver()]).receiver is None
    reader.forget("job-uid")
    assert reader.known("job-uid", [_receiver()]).receiver is None


async def test_a_report_that_is_refused_is_told_with_its_field_until_a_better_one_comes() -> None:
    reader = Scripted()
    reader.answers = {PROGRESS: RECEIVER | {"bytes_transferred": 2**63}}
    (refusal,) = (await reader.read("job-uid", [_receiver()])).refusals
    assert (refusal.role, refusal.reason) == ("receiver", "ReportMalformed")
    assert refusal.message.startswith("what it answers at /v1/progress is refused: bytes_transferred: ")
    reader.now += 60.0
    reader.answers = {PROGRESS: RECEIVER | {"bytes_transferred": 5}}
    assert (await reader.read("job-uid", [_receiver()])).refusals == ()


async def test_a_silent_mover_is_asked_less_and_less_often_and_anew_when_it_becomes_ready() -> None:
    reader, asked = Scripted(), []
    reader.answers = {PROGRESS: TimeoutError()}
    fetch, pod = reader._fetch, _receiver(ready=False)

    async def counted(host: str, port: int, path: str, most_bytes: int) -> bytes | None:
        asked.append(reader.now)
        return await fetch(host, port, path, most_bytes)

    reader._fetch = counted  # type: ignore[method-assign]
    for _ in range(120):
        await reader.read("job-uid", [pod])
        reader.now += 1.0
    moments = sorted(set(asked))
    assert [after - before for before, after in pairwise(moments)] == [3, 6, 12, 24, 30, 30]
    asked.clear()
    await reader.read("job-uid", [replace(pod, ready=True)])
    assert asked


async def test_a_connection_that_is_refused_costs_nothing_and_is_tried_every_time() -> None:
    reader = Scripted()
    for _ in range(5):
        reader.answers = {PROGRESS: ConnectionRefusedError()}
        await reader.read("job-uid", [_receiver()])
    reader.answers = {PROGRESS: RECEIVER | {"bytes_transferred": 5}}
    assert (await reader.read("job-uid", [_receiver()])).receiver is not None


@pytest.mark.parametrize(("pods", "seconds"), [([_receiver()], UNSETTLED_SECONDS), ([_receiver(), _sender()], SETTLED_SECONDS)])
async def test_an_endpoint_is_asked_for_again_after_a_while_and_soon_where_it_may_keep_the_other_end_away(
    pods: list[MoverPod], seconds: float
) -> None:
    reader = Scripted()
    reader.answers = {ENDPOINT: RECEIVERS_ENDPOINT}
    await reader.read("job-uid", pods)
    reader.answers = {ENDPOINT: RECEIVERS_ENDPOINT | {"interface": "data1"}}
    found = []
    for _ in range(3):
        found.append((await reader.read("job-uid", pods)).receiver_endpoint)
        reader.now += 0.6 * seconds
    assert [endpoint.interface for endpoint in found if endpoint] == ["data0", "data0", "data1"]


async def test_what_each_interface_carried_and_each_path_sent_is_read() -> None:
    reader = Scripted()
    counted = {"bytes_transferred": 5, "files_transferred": 0, "rate_bytes_per_second": 1.0}
    said = {"role": "sender", "job": "job-uid", "attempt": 1, "stage": FLOWS, **counted}
    both = [
        {"interface": "data0", "bytes_sent": 9, "bytes_received": None, "up": True, "wire_bytes": 7},
        {"interface": "data1", "bytes_sent": 8, "bytes_received": 2, "up": False},
    ]
    reader.answers = {PROGRESS: {**said, "interfaces": both}}
    progress = (await reader.read("job-uid", [_sender()])).sender
    assert progress is not None
    assert progress.interfaces == (InterfaceTraffic("data0", 9, None, 7), InterfaceTraffic("data1", 8, 2))
    assert [(path.interface, path.up) for path in progress.paths] == [("data0", True), ("data1", False)]


async def test_an_answer_that_this_process_may_have_missed_says_nothing_of_the_mover_for_a_while() -> None:
    reader = Scripted()
    reader.is_late = True
    reader.answers = {PROGRESS: TimeoutError(), ENDPOINT: TimeoutError()}
    for _ in range(MOST_EXCUSED // 2):
        reports = await reader.read("job-uid", [_receiver()])
        assert reports.is_receiver_unasked
        reader.now += 40.0
    reports = await reader.read("job-uid", [_receiver()])
    assert not reports.is_receiver_unasked, "it is silent after all"


@pytest.mark.parametrize("answer", [ConnectionRefusedError(), ValueError("status 500")])
async def test_what_a_mover_answers_counts_however_late_this_process_is(answer: Exception) -> None:
    reader = Scripted()
    reader.is_late = True
    reader.answers = {PROGRESS: answer, ENDPOINT: answer}
    assert not (await reader.read("job-uid", [_receiver()])).is_receiver_unasked
