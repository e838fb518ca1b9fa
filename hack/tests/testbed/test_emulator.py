import asyncio
from pathlib import Path

import pytest

from fairlead_dev.errors import CommandUsageError, LabError
from fairlead_dev.testbed.lab.emulator import Emulator, dropped_unsent, path_options, quantum_us
from fairlead_dev.testbed.lab.namespaces import Names
from fairlead_dev.testbed.scenario.model import Path as NetworkPath
from fairlead_dev.wan.emulator import PROGRAM_VARIABLE, find_program, treatment_options

from .build import path


@pytest.mark.parametrize(
    ("rtt_ms", "buffer_bdp", "expected_us"),
    [
        pytest.param(5, 1, 100, id="short path"),
        pytest.param(30, 1, 300, id="a hundredth of the RTT"),
        pytest.param(30, 0.5, 150, id="a hundredth of the queue"),
        pytest.param(200, 5, 500, id="long path"),
    ],
)
def test_packets_are_late_by_a_hundredth_of_what_is_to_be_seen(rtt_ms: float, buffer_bdp: float, expected_us: int) -> None:
    assert quantum_us(NetworkPath(rate_bps=50_000_000, rtt_ms=rtt_ms, buffer_bdp=buffer_bdp)) == expected_us


def test_a_named_emulator_that_is_missing_is_said_with_the_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(PROGRAM_VARIABLE, str(tmp_path / "none"))
    with pytest.raises(CommandUsageError, match=r"none: no such program: build it with `make rust`"):
        find_program()


def test_a_plain_path_is_told_to_the_emulator_as_ever() -> None:
    options = path_options(NetworkPath.model_validate(path(loss_ratio=0.001)))
    expected = "--rate 50000000 --delay 20.000000ms --buffer 250000 --loss 0.001000000 --quantum 400us"
    assert " ".join(options) == expected


def test_a_path_with_the_kernels_queue_has_its_delay_alone_from_the_emulator() -> None:
    options = path_options(NetworkPath.model_validate(path(loss_ratio=0.001, emulator="kernel")))
    assert " ".join(options) == "--rate unlimited --delay 20.000000ms --quantum 400us"


def test_queue_policing_and_thinning_are_told_when_they_are_named() -> None:
    burst = {"rate_bps": 5_000_000, "burst_bytes": 30_000}
    content = path(queue="fq-codel", police={"rate_bps": 40_000_000}, police_udp=burst, thin_acks=4)
    options = path_options(NetworkPath.model_validate(content))[10:]
    assert options == ("--queue", "fq-codel", "--police", "40000000", "--police-udp", "5000000,30000", "--thin-acks-ba", "4")


def test_what_the_path_dropped_unsent_is_counted_by_every_cause_there_is() -> None:
    causes = {"buffer": 1, "codel": 20, "police": 300, "police_udp": 4000, "thinned": 50_000, "loss": 600_000}
    assert dropped_unsent({f"packets_dropped_{cause}": count for cause, count in causes.items()}) == 4321
    assert dropped_unsent({"packets_dropped_buffer": 7, "packets_dropped_loss": 9}) == 7


@pytest.mark.parametrize(
    ("queue", "thin_acks", "message"),
    [
        pytest.param("red", 1, "queue: 'red' is no kind of queue: give one of drop-tail, drop-tail-packets, codel, fq-codel", id="queue"),
        pytest.param("codel:target=9ms", 0, "thin_acks: of 0 acknowledgements none can be kept", id="no acknowledgement"),
    ],
)
def test_a_treatment_that_the_emulator_lacks_is_refused_by_its_field(queue: str, thin_acks: int, message: str) -> None:
    with pytest.raises(CommandUsageError, match=message):
        treatment_options(queue, thin_acks=thin_acks)


def test_options_of_a_kind_of_queue_are_left_to_the_emulator() -> None:
    assert treatment_options("codel:target=9ms") == ("--queue", "codel:target=9ms")
    assert treatment_options() == ()


async def test_an_emulator_that_gave_up_on_a_late_question_is_asked_again(tmp_path: Path) -> None:
    connections = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        if len(connections) > 1:
            await reader.readline()
            writer.write(b'{"result": {"packets": 1}}\n')
        writer.close()

    socket = tmp_path / "control"
    emulated = NetworkPath(rate_bps=50_000_000, rtt_ms=30, buffer_bdp=1)
    emulator = Emulator(tmp_path, Names.of(1, 1), emulated, seed=1, socket=socket, priority=None)
    async with await asyncio.start_unix_server(answer, socket):
        assert await emulator.stats() == {"packets": 1}
    assert len(connections) == 2
    with pytest.raises(LabError, match="does not answer"):
        await emulator.stats()
