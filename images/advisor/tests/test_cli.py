import asyncio
import json
import signal
from pathlib import Path

import pytest

from fairlead_advisor.probe.trace import read_trace
from tests.support.command import PATIENCE_S, finish, run, start
from tests.support.echo_server import KEY, OTHER_KEY, Answer, echo_server, reply_to


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def test_probe_writes_the_trace_and_prints_its_summary(tmp_path: Path) -> None:
    output = tmp_path / "trace.csv"
    behaviour = lambda sequence, request: [] if sequence == 3 else [Answer(reply_to(request), delay_s=0.05)]  # noqa: E731
    async with echo_server(behaviour) as server:
        outcome = await run(
            "probe", "--peer", f"127.0.0.1:{server.port}", "--echo-key", KEY.hex(), "--rate", 50, "--seconds", 1, "--output", output
        )
    assert (outcome.exit_code, outcome.stderr) == (0, "")
    report = json.loads(outcome.stdout)
    trace = read_trace(output)
    assert report["peer"] == f"127.0.0.1:{server.port}"
    answered = len(trace.answered_rtts_ms())
    assert report["samples"] == len(trace) == len(server.requests)
    assert (report["answered"], list(trace.rows())[3][1]) == (answered, None)
    assert report["loss_ratio"] == pytest.approx(1 - answered / len(trace), abs=1e-3)
    assert 50 <= report["rtt_minimum_ms"] <= report["rtt_median_ms"] <= report["rtt_p95_ms"]
    assert report["jitter_ms"] >= 0


async def test_probe_without_any_reply_fails_with_what_to_check_and_keeps_the_trace(tmp_path: Path) -> None:
    async with echo_server(lambda _sequence, request: [Answer(reply_to(request, OTHER_KEY))]) as server:
        outcome = await run(
            "probe", "--peer", f"127.0.0.1:{server.port}", "--echo-key", KEY.hex(), "--seconds", 1, "--output", tmp_path / "trace.csv"
        )
    assert outcome.exit_code == 1
    assert "check --echo-key" in outcome.stderr
    assert json.loads(outcome.stdout)["rtt_median_ms"] is None
    rows = list(read_trace(tmp_path / "trace.csv").rows())
    assert rows and all(rtt_ms is None for _, rtt_ms in rows)


PROBE = {"--peer": "127.0.0.1:9", "--echo-key": KEY.hex(), "--output": "trace.csv"}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"--echo-key": "abc"}, "32 hexadecimal digits"),
        ({"--rate": "9"}, "rate must be 10 to 200"),
        ({"--rate": "201"}, "rate must be 10 to 200"),
        ({"--rate": "nan"}, "rate must be 10 to 200"),
        ({"--seconds": "0"}, "duration must be 1 to 3600"),
        ({"--output": "missing/trace.csv"}, "does not exist"),
        ({"--output": "."}, "not a regular file"),
        ({"--peer": "127.0.0.1"}, "not HOST:PORT"),
        ({"--peer": "127.0.0.1:0"}, "port of 1 to 65535"),
        ({"--peer": "127.0.0.1:99999999"}, "port of 1 to 65535"),
        ({"--peer": "::1:24000"}, "brackets"),
        ({"--interface": "absent0"}, "--interface absent0"),
    ],
)
async def test_probe_refuses_bad_arguments_before_it_sends_or_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, str], complaint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = await run("probe", *(word for pair in (PROBE | change).items() for word in pair))
    assert outcome.exit_code == 2
    assert complaint in outcome.stderr
    assert "Traceback" not in outcome.stderr
    assert names_in(tmp_path) == []


async def test_an_interrupted_probe_leaves_no_file(tmp_path: Path) -> None:
    async with echo_server() as server:
        process = await start(
            "probe", "--peer", f"127.0.0.1:{server.port}", "--echo-key", KEY.hex(), "--seconds", 3600, "--output", tmp_path / "trace.csv"
        )
        await server.asked.wait()
        process.send_signal(signal.SIGINT)
        outcome = await asyncio.wait_for(finish(process), PATIENCE_S)
    assert (outcome.exit_code, outcome.stderr) == (130, "fairlead-advisor: interrupted\n")
    assert names_in(tmp_path) == []


RUN = {"--control-socket": "control.sock", "--http": "127.0.0.1:1", "--trace": "trace.csv"}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"--streams-min": "5", "--streams-max": "4"}, "the minimum not above the maximum"),
        ({"--streams-min": "0"}, "--streams-min 0"),
        ({"--streams-max": "1000"}, "--streams-max 1000"),
        ({"--congestion-control": "not one!"}, "must be Auto or a name such as cubic"),
        ({"--control-socket": "x" * 108}, "at most 107 bytes"),
        ({"--trace": "missing/trace.csv"}, "does not exist"),
        ({"--path-capacity": "fast"}, "no rate"),
        ({"--path-capacity": "0"}, "no rate"),
        ({"--stream-coefficient": "nan"}, "not a number above 0"),
        ({"--stream-coefficient": "-1"}, "not a number above 0"),
        ({"--others-weight": "2"}, "not a number from 0 to 1"),
        ({"--others-weight": "nan"}, "not a number from 0 to 1"),
        ({"--shares": "0"}, "--shares 0"),
        ({"--shares": "1000"}, "--shares 1000"),
        ({"--rate": "1"}, "rate must be 10 to 200"),
        ({"--http": "198.18.255.254:1"}, "cannot listen"),
    ],
)
async def test_run_refuses_bad_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, str], complaint: str) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = await run("run", *(word for pair in (RUN | change).items() for word in pair))
    assert outcome.exit_code == 2
    assert complaint in outcome.stderr
    assert "Traceback" not in outcome.stderr


@pytest.mark.parametrize("listener", ["[::1]:1", "::1:1"], ids=["as a person writes it", "as the kubelet does"])
async def test_run_takes_an_address_of_ipv6_to_serve_at(tmp_path: Path, listener: str) -> None:
    files = ("--control-socket", tmp_path / "control.sock", "--trace", tmp_path / "missing" / "trace.csv")
    outcome = await run("run", "--http", listener, *files)
    assert (outcome.exit_code, "does not exist" in outcome.stderr) == (2, True)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [(None, "no such file"), ("oops\n", "line 1: not JSON"), ("", "holds no decision yet")],
    ids=["none", "text", "empty"],
)
async def test_explain_refuses_what_is_no_record(tmp_path: Path, content: str | None, complaint: str) -> None:
    record = tmp_path / "decisions.jsonl"
    if content is not None:
        record.write_text(content)
    outcome = await run("explain", record)
    assert (outcome.exit_code, outcome.stdout) == (2, "")
    assert complaint in outcome.stderr
    assert "Traceback" not in outcome.stderr


async def test_no_command_is_a_usage_error() -> None:
    assert (await run()).exit_code == 2
