"""The sidecar as a process, between an echo service and a mover's control socket."""

import asyncio
import json
import re
import socket
from pathlib import Path
from typing import Any

import pytest

from fairlead_advisor.models.answer import CLASSES
from fairlead_advisor.probe.trace import read_trace
from fairlead_dev.promtool import complaints
from tests.serve.conftest import Start, met_mover
from tests.support.command import PATIENCE_S, finish, run, start
from tests.support.echo_server import Answer, echo_server, reply_to, silent
from tests.support.fake_mover import FakeMover, serving_mover


async def test_measures_decides_applies_and_tells(sidecar: Start, control_socket: Path, tmp_path: Path) -> None:
    running = await sidecar()
    assert (await running.get("/v1/decision"))[0] == 503
    mover = FakeMover()
    delayed = echo_server(lambda _sequence, request: [Answer(reply_to(request), delay_s=0.06)])
    async with delayed as echo, serving_mover(mover, control_socket):
        await mover.peer_asked.wait()
        assert (await running.get("/v1/decision"))[0] == 503
        assert mover.patches == []
        mover.meet(echo.port)
        record = await running.decision()
        await mover.stats_asked.wait()
        metrics = await running.until("/metrics", lambda _status, body: "fairlead_advisor_mover_up 1.0" in body)
        outcome = await running.stop()

    trace = read_trace(tmp_path / "trace.csv")
    assert {address for address, _ in echo.senders} == {"127.0.0.2"}
    assert mover.patches == [{"congestion_control": "cubic", "streams": 4}]
    assert record["version"] == 1
    assert set(record["path"]) == {"rtt_seconds", "rtt_minimum_seconds", "loss_ratio", "samples", "whole"}
    answered = len(trace.answered_rtts_ms())
    assert 0.06 <= record["path"]["rtt_minimum_seconds"] <= record["path"]["rtt_seconds"]
    assert record["path"]["rtt_minimum_seconds"] == pytest.approx(min(trace.answered_rtts_ms()) / 1000, abs=1e-6)
    assert echo.accounts_for(trace)
    assert record["path"]["loss_ratio"] == pytest.approx(1 - answered / len(trace), abs=1e-3)
    assert record["path"]["samples"] == len(trace) >= answered > 0
    message, decided_at = record["decision"].pop("message"), record["decision"].pop("decided_at")
    assert record["decision"] == {
        "protocol": "TCP",
        "congestion_control": "cubic",
        "streams": 4,
        "socket_buffer_bytes": None,
        "socket_buffer_needed_bytes": None,
        "background": None,
        "probabilities": None,
        "any_bbr": None,
        "confidence": None,
        "abstained": True,
        "model": None,
        "utility": None,
        "rejected": [{"congestion_control": "bbr", "utility": None, "why_not": "no classifier tells the background traffic"}],
        "reason": "NoModel",
    }
    assert "no classifier tells the background" in message
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", decided_at)
    for line in (
        'fairlead_advisor_decision_info{abstained="true",congestion_control="cubic",protocol="TCP",reason="NoModel"} 1.0',
        'fairlead_advisor_decisions_total{background="None",reason="NoModel"} 1.0',
        "fairlead_advisor_decision_applied 1.0",
        "fairlead_advisor_decision_streams 4.0",
        f"fairlead_advisor_probes_sent_total {len(trace)}.0",
        f"fairlead_advisor_probes_received_total {answered}.0",
        "fairlead_advisor_transfer_rtt_seconds 0.25",
        "fairlead_advisor_transfer_streams 4.0",
    ):
        assert line in metrics.splitlines()
    shown = re.search(r"^fairlead_advisor_rtt_seconds (\S+)", metrics, re.MULTILINE)
    assert shown and float(shown[1]) == pytest.approx(record["path"]["rtt_seconds"], rel=1e-3)
    resident = re.search(r"^process_resident_memory_bytes (\S+)", metrics, re.MULTILINE)
    assert resident and float(resident[1]) < 80 * 2**20
    assert complaints(metrics) == ""
    assert outcome.exit_code == 0
    assert "Traceback" not in outcome.stderr


async def test_an_echo_that_never_answers_still_gets_the_safe_default(sidecar: Start, control_socket: Path) -> None:
    running = await sidecar()
    mover = FakeMover()
    async with met_mover(control_socket, mover, silent):
        record = await running.decision()
    assert record["decision"]["reason"] == "ProbeFailed"
    assert record["path"]["rtt_seconds"] is None
    assert record["path"]["loss_ratio"] == 1
    assert mover.in_force == {"congestion_control": "cubic", "streams": 4}


@pytest.mark.parametrize(
    "peer", ["text", {"address": "127.0.0.1"}, {"address": "x", "source_address": "y", "echo_port": 1, "echo_key": "z"}]
)
async def test_garbage_from_the_mover_still_gets_the_safe_default(sidecar: Start, control_socket: Path, peer: Any) -> None:
    running = await sidecar()
    mover = FakeMover(peer=peer)
    async with serving_mover(mover, control_socket):
        record = await running.decision()
    assert record["decision"]["reason"] == "ProbeFailed"
    assert record["path"] == {"rtt_seconds": None, "rtt_minimum_seconds": None, "loss_ratio": None, "samples": 0, "whole": False}
    assert mover.in_force == {"congestion_control": "cubic", "streams": 4}


def _known(rtt_minimum_seconds: float, likeliest: float = 0.95) -> str:
    background = {
        "probabilities": {name: likeliest if name == "B1-C0" else 0.01 for name in CLASSES},
        "any_bbr": 0.97,
        "confidence": 0.97,
        "abstained": False,
        "model": "background-1.0.0",
        "measured_at": "2026-01-01T00:00:00Z",
    }
    return json.dumps({"version": 1, "rtt_minimum_seconds": rtt_minimum_seconds, "background": background})


async def test_a_known_path_is_glanced_at_instead_of_probed(sidecar: Start, control_socket: Path, tmp_path: Path) -> None:
    message = tmp_path / "message"
    running = await sidecar("--seconds", 3600, "--known-path", _known(1.2), "--termination-log", message)
    mover = FakeMover()
    # Half of it may be added by a machine that has other things to do.
    async with met_mover(control_socket, mover, lambda _sequence, request: [Answer(reply_to(request), delay_s=1.2)]):
        record = await running.decision()
        await running.stop()
    assert (record["decision"]["reason"], record["decision"]["congestion_control"]) == ("Known", "bbr")
    background = {"class": "B1-C0", "probability": 0.95, "abstained": False, "measured_at": "2026-01-01T00:00:00Z"}
    assert record["decision"]["background"] == background
    assert (record["path"]["samples"] <= 20, record["path"]["whole"]) == (True, False)
    assert mover.patches[0]["congestion_control"] == "bbr"
    outcome = json.loads(message.read_text())["outcome"]
    assert outcome["congestion_control"] == "bbr"
    limited = {f"{what}_limited_ratio" for what in ("send_buffer", "receive_window", "source", "cap")}
    assert set(outcome) == {"congestion_control", "streams", "goodput_bps", "seconds", "stream_coefficient"} | limited


async def test_a_path_whose_rtt_is_another_is_probed_as_a_whole(sidecar: Start, control_socket: Path) -> None:
    # No sample is waited for that long, however late a busy machine answers.
    running = await sidecar("--known-path", _known(20.0))
    mover = FakeMover()
    async with met_mover(control_socket, mover):
        record = await running.decision()
    assert (record["decision"]["reason"], record["decision"]["background"]) == ("NoModel", None)
    assert record["path"]["whole"], "so that it replaces what was known"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("{}", "--known-path: version", id="no such document"),
        pytest.param(_known(0.2, likeliest=0.5), "the probabilities of the classes add up to 0.550", id="no distribution"),
        pytest.param(_known(0.2).replace("B1-B1", "B2-B2"), "the classes are", id="the classes of another release"),
    ],
)
async def test_a_known_path_that_says_nothing_of_use_is_told_and_the_path_probed(
    sidecar: Start, control_socket: Path, text: str, complaint: str
) -> None:
    running = await sidecar("--known-path", text)
    async with met_mover(control_socket, FakeMover()):
        record = await running.decision()
        outcome = await running.stop()
    assert (record["decision"]["reason"], record["path"]["whole"], outcome.exit_code) == ("NoModel", True, 0)
    assert complaint in outcome.stderr
    assert "it is left aside, and the path is probed" in outcome.stderr
    assert "Traceback" not in outcome.stderr


async def test_the_users_choice_is_applied(sidecar: Start, control_socket: Path) -> None:
    running = await sidecar("--congestion-control", "bbr", "--streams-min", 8)
    mover = FakeMover()
    async with met_mover(control_socket, mover):
        record = await running.decision()
    assert (record["decision"]["reason"], record["decision"]["abstained"]) == ("UserChoice", False)
    assert mover.patches == [{"congestion_control": "bbr", "streams": 8}]


@pytest.mark.parametrize(
    ("permitted", "available", "chosen", "patched"),
    [
        pytest.param({"reno"}, ["reno", "bbr"], "Auto", ["reno"], id="no cubic in the kernel: it is not even asked for"),
        pytest.param({"reno"}, ["reno", "cubic"], "Auto", ["cubic", "reno"], id="cubic in the kernel but not permitted"),
        pytest.param({"reno", "cubic"}, ["reno", "cubic"], "bbr", ["bbr", "cubic"], id="the user's choice is not offered"),
    ],
)
async def test_a_refused_congestion_control_falls_back_to_one_offered(
    sidecar: Start, control_socket: Path, permitted: set[str], available: list[str], chosen: str, patched: list[str]
) -> None:
    running = await sidecar("--congestion-control", chosen)
    mover = FakeMover(permitted=permitted, available=available)
    async with met_mover(control_socket, mover):
        record = await running.decision()
    assert [patch["congestion_control"] for patch in mover.patches] == patched
    assert record["decision"]["congestion_control"] == mover.in_force["congestion_control"] == patched[-1]
    assert record["decision"]["reason"] == "NoModel"
    refused = [f"{name} is not permitted" in record["decision"]["message"] for name in patched[:-1]]
    assert refused == [True] * (len(patched) - 1)


@pytest.mark.parametrize("permitted", [{"cubic"}, {"reno"}])
async def test_refused_streams_are_left_as_the_mover_has_them(sidecar: Start, control_socket: Path, permitted: set[str]) -> None:
    running = await sidecar("--streams-min", 16)
    mover = FakeMover(streams_maximum=8, permitted=permitted)
    async with met_mover(control_socket, mover):
        record = await running.decision()
    assert mover.in_force == {"congestion_control": permitted.copy().pop(), "streams": 2}
    assert record["decision"]["congestion_control"] in permitted
    assert record["decision"]["streams"] == 2
    assert "at most 8" in record["decision"]["message"]


async def test_a_decision_that_no_fallback_gets_into_force_is_published_as_not_applied(sidecar: Start, control_socket: Path) -> None:
    running = await sidecar()
    mover = FakeMover(permitted=set())
    async with met_mover(control_socket, mover):
        record = await running.until(
            "/v1/decision", lambda status, body: status == 200 and "reno is not permitted" in body["decision"]["message"]
        )
        await running.until("/metrics", lambda _status, body: "fairlead_advisor_decision_applied 0.0" in body)
    assert record["applied"] is False
    assert len(mover.patches) == 2


async def test_a_mover_that_is_busy_is_asked_again(sidecar: Start, control_socket: Path) -> None:
    running = await sidecar()
    mover = FakeMover(unavailable_patches=3)
    async with met_mover(control_socket, mover):
        await running.decision()
    assert len(mover.patches) == 4


async def test_a_trace_that_cannot_be_written_does_not_stop_the_decision(sidecar: Start, control_socket: Path, tmp_path: Path) -> None:
    running = await sidecar()
    (tmp_path / "trace.csv").mkdir()
    async with met_mover(control_socket, FakeMover()):
        record = await running.decision()
    outcome = await running.stop()
    assert record["decision"]["reason"] == "NoModel"
    assert "the trace is lost" in outcome.stderr


async def test_a_mover_that_went_away_is_seen_in_the_metrics_and_ends_nothing(sidecar: Start, control_socket: Path) -> None:
    running = await sidecar()
    async with met_mover(control_socket, FakeMover()):
        await running.decision()
    await running.until("/metrics", lambda _status, body: "fairlead_advisor_mover_up 0.0" in body)
    assert (await running.decision())["decision"]["reason"] == "NoModel"
    assert (await running.stop()).exit_code == 0


@pytest.mark.parametrize("when", ["before the mover", "before the peer", "while probing"])
async def test_it_ends_promptly_and_cleanly_when_told(sidecar: Start, control_socket: Path, when: str, tmp_path: Path) -> None:
    running = await sidecar("--seconds", 3600)
    mover = FakeMover()
    async with echo_server() as echo, serving_mover(mover, control_socket if when != "before the mover" else tmp_path / "other.sock"):
        if when != "before the mover":
            await mover.peer_asked.wait()
        if when == "while probing":
            mover.meet(echo.port)
            await echo.asked.wait()
        outcome = await running.stop()
    assert outcome.exit_code == 0
    assert "Traceback" not in outcome.stderr
    assert not (tmp_path / "trace.csv").exists()


async def test_a_port_in_use_is_refused(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        process = await start("run", "--http", address, "--control-socket", tmp_path / "control.sock", "--trace", tmp_path / "trace.csv")
        outcome = await asyncio.wait_for(finish(process), PATIENCE_S)
    assert outcome.exit_code == 2
    assert "cannot listen" in outcome.stderr
    assert "Traceback" not in outcome.stderr


async def test_the_decision_is_left_in_the_termination_message(sidecar: Start, control_socket: Path, tmp_path: Path) -> None:
    last_word = tmp_path / "termination-log"
    last_word.touch()
    running = await sidecar("--termination-log", last_word)
    async with met_mover(control_socket, FakeMover()):
        record = await running.decision()
        await running.stop()
    told = json.loads(last_word.read_text())
    assert told["outcome"]["congestion_control"] == record["decision"]["congestion_control"]
    assert told | {"outcome": None} == record


async def test_no_termination_message_is_left_before_a_decision(sidecar: Start, tmp_path: Path) -> None:
    last_word = tmp_path / "termination-log"
    running = await sidecar("--termination-log", last_word)
    assert (await running.stop()).exit_code == 0
    assert not last_word.exists()


@pytest.mark.long
async def test_streams_are_added_while_the_transfer_runs_if_that_helps(sidecar: Start, control_socket: Path, tmp_path: Path) -> None:
    # What a busy machine adds to the loopback's RTT looks like others' queue, beside which streams are added one by one.
    running = await sidecar("--others-weight", 0)
    async with met_mover(control_socket, FakeMover()) as mover:
        await running.decision()
        await running.until("/metrics", lambda _status, body: 'stream_trials_total{outcome="kept"} 1.0' in body)
        await running.stop()
    assert mover.patches[1] == {"streams": 8}
    told = await run("explain", tmp_path / "decisions.jsonl")
    assert told.exit_code == 0
    assert "streams 4 → 8 tried, kept 8" in told.stdout
    assert "ended with cubic and 8 streams" in told.stdout


async def test_what_is_known_of_the_path_gives_the_first_count(sidecar: Start, control_socket: Path) -> None:
    running = await sidecar("--path-capacity", "1G", "--stream-coefficient", 1.5e-7)
    delayed = echo_server(lambda _sequence, request: [Answer(reply_to(request), delay_s=0.04)])
    mover = FakeMover()
    async with delayed as echo, serving_mover(mover, control_socket):
        mover.meet(echo.port)
        record = await running.decision()
    assert mover.patches[0]["streams"] == record["decision"]["streams"]
    # 1.5e-7 x 1e9 x the RTT, which is 0.04 and what the machine adds.
    path = record["path"]
    assert max(6, int(150 * path["rtt_minimum_seconds"])) <= record["decision"]["streams"] <= int(150 * path["rtt_seconds"]) + 1
    assert record["decision"]["socket_buffer_needed_bytes"] > 0


@pytest.mark.parametrize(("refuses", "in_force"), [(False, 8 * 2**20), (True, None)], ids=["the mover sets it", "the mover refuses"])
async def test_a_stream_that_needs_more_than_the_kernel_takes_by_itself_gets_a_larger_send_buffer(
    sidecar: Start, control_socket: Path, tmp_path: Path, refuses: bool, in_force: int | None
) -> None:
    buffer = {"bytes": None, "set_by": "Kernel", "automatic_bytes": 4 * 2**20, "settable_bytes": 8 * 2**20}
    running = await sidecar("--path-capacity", "10G", "--streams-min", 4, "--streams-max", 4)
    delayed = echo_server(lambda _sequence, request: [Answer(reply_to(request), delay_s=0.04)])
    mover = FakeMover(socket_buffer=buffer, refuses_buffers=refuses)
    async with delayed as echo, serving_mover(mover, control_socket):
        mover.meet(echo.port)
        record = await running.decision()
        await running.stop()
    assert mover.patches[0]["socket_buffer_bytes"] == 8 * 2**20, "what may be asked for"
    assert record["decision"]["socket_buffer_bytes"] == in_force
    assert record["decision"]["socket_buffer_needed_bytes"] > 10e9 / 8 * 0.04 * 2 / 4
    assert (mover.in_force["congestion_control"], mover.in_force["streams"]) == ("cubic", 4)
    assert ("the mover refused socket_buffer_bytes" in record["decision"]["message"]) is refuses
    told = (await run("explain", tmp_path / "decisions.jsonl")).stdout
    assert ("set to 8.0 MiB a stream" in told, "left to the kernel" in told) == (not refuses, refuses)


async def test_a_count_set_by_the_user_is_kept(sidecar: Start, control_socket: Path) -> None:
    running = await sidecar("--streams-min", 3, "--streams-max", 3)
    async with met_mover(control_socket, FakeMover()) as mover:
        await running.decision()
        await running.until("/metrics", lambda _status, body: re.search(r"goodput_bytes_per_second \d", body) is not None)
    assert mover.patches == [{"congestion_control": "cubic", "streams": 3}]


async def test_started_in_mid_transfer_it_keeps_what_is_in_force(sidecar: Start, control_socket: Path, tmp_path: Path) -> None:
    running = await sidecar("--streams-min", 6, "--streams-max", 6)
    mover = FakeMover(stage="Transferring", in_force={"congestion_control": "bbr", "streams": 6})
    async with met_mover(control_socket, mover):
        record = await running.decision()
    assert mover.patches == []
    assert (record["decision"]["congestion_control"], record["decision"]["streams"]) == ("bbr", 6)
    assert record["decision"]["reason"] == "InForce"
    assert record["path"]["rtt_minimum_seconds"] == 0.2
    assert not (tmp_path / "trace.csv").exists(), "its own load is no idle path"


async def test_killed_and_started_again_it_remembers_the_path_it_measured(sidecar: Start, control_socket: Path, tmp_path: Path) -> None:
    first = await sidecar()
    async with met_mover(control_socket, FakeMover()):
        before = await first.decision()
        first.process.kill()
        await first.process.wait()
        after = await (await sidecar()).decision()
    assert after["decision"]["reason"] == "InForce"
    assert before["decision"]["message"] in after["decision"]["message"]
    assert after["path"] == before["path"] | {"whole": False}, "it was not measured now"
    entries = [json.loads(line) for line in (tmp_path / "decisions.jsonl").read_text().splitlines()]
    assert [(entry["kind"], entry["number"]) for entry in entries] == [("survey", 0), ("decision", 1), ("decision", 2)]


@pytest.mark.parametrize("when", ["from the start", "after the decision"])
async def test_a_mover_whose_socket_hangs_holds_nothing_up(sidecar: Start, control_socket: Path, when: str) -> None:
    running = await sidecar()
    if when == "after the decision":
        async with met_mover(control_socket, FakeMover()):
            await running.decision()
    asked = asyncio.Event()

    async def hang(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set()
        await writer.wait_closed()

    async with await asyncio.start_unix_server(hang, control_socket):
        await asked.wait()
        assert (await running.get("/healthz"))[0] == 200
        outcome = await running.stop()
    assert outcome.exit_code == 0
    assert "Traceback" not in outcome.stderr


async def test_statistics_that_make_no_sense_change_nothing(sidecar: Start, control_socket: Path) -> None:
    running = await sidecar()
    mover = FakeMover()
    async with met_mover(control_socket, mover):
        await running.decision()
        mover.garbage = {"stage": "Transferring", "available_congestion_controls": ["cubic"], "streams": [{"id": 0, "bytes_sent": -1}]}
        await running.until("/metrics", lambda _status, body: "fairlead_advisor_mover_up 0.0" in body)
        mover.garbage = None
        await running.until("/metrics", lambda _status, body: "fairlead_advisor_mover_up 1.0" in body)
    assert len(mover.patches) == 1
