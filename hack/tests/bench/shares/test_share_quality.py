"""Which runs count."""

import copy
from typing import Any

import pytest

from fairlead_dev.bench.shares.plan import SharePath
from fairlead_dev.bench.shares.quality import data_control, faults_of

PATH = SharePath(40, 60, 1)
DIRECTION = {
    "packets_overrun": 0,
    "packets_dropped_memory": 0,
    "packets_dropped_device": 0,
    "write_lateness_us": {"p50": 60.0, "p99": 300.0, "max": 4000.0},
}


def faults(
    direction: str = "ab", *, answered: str = "..yyyyyy", controls: dict[str, list[str]] | None = None, busy: float = 0.5, **changes: Any
) -> str:
    emulator = {"ab": copy.deepcopy(DIRECTION), "ba": copy.deepcopy(DIRECTION)}
    emulator[direction] |= changes
    samples = [{"jobs": [{"answered": one == "y"}]} for one in answered]
    return "; ".join(faults_of(PATH, emulator, samples, controls or {}, busy))


def test_a_run_on_a_quiet_machine_is_good() -> None:
    assert not faults(controls={"cubic": ["cubic"]})


@pytest.mark.parametrize("direction", ["ab", "ba"])
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"packets_overrun": 3}, "the kernel dropped 3 packets"),
        ({"packets_overrun": None}, "the kernel dropped None"),
        ({"packets_dropped_memory": 1}, "the emulator dropped packets"),
        ({"packets_dropped_device": 1}, "the emulator dropped packets"),
        # A fiftieth of 120 ms, the round trip through a full queue.
        ({"write_lateness_us": {"p99": 2500.0, "max": 4000.0}}, "2500 us late"),
        ({"write_lateness_us": {"p99": 300.0, "max": 120_000.0}}, "120.0 ms late"),
    ],
)
def test_a_machine_that_was_late_or_dropped_packets_disturbs_either_direction(
    direction: str, changes: dict[str, Any], message: str
) -> None:
    assert faults(direction, **changes).startswith(f"{direction}: ") and message in faults(direction, **changes)


def test_a_mover_that_is_kept_from_running_disturbs() -> None:
    assert faults(answered="....yy....yy") == ""
    assert "left 5 questions" in faults(answered="yy.....yy")
    assert "answered nothing" in faults(answered=".....")


def test_a_machine_without_idle_time_disturbs() -> None:
    assert faults(busy=0.9) == ""
    assert "busy for 97% of the time, at most 90%: run fewer side by side" in faults(busy=0.97)


def test_each_of_our_movers_is_held_to_its_answers_from_its_own_start_on() -> None:
    emulator = {"ab": DIRECTION, "ba": DIRECTION}
    samples = [{"jobs": [{"answered": True}, *([{"answered": second > 12}] if second > 5 else [])]} for second in range(20)]
    assert not faults_of(PATH, emulator, samples, {}, 0.5)
    samples[13:18] = [{"jobs": [{"answered": True}, {"answered": second in (0, 9)}]} for second in range(6)]
    assert faults_of(PATH, emulator, samples, {}, 0.5) == ("mover 1 left 5 questions in a row unanswered, at most 4",)
    assert not faults_of(PATH, emulator, [{"jobs": []}], {}, 0.5)


def test_a_socket_with_another_congestion_control_than_was_asked_for_disturbs() -> None:
    assert "was cubic, bbr was asked for" in faults(controls={"bbr": ["cubic"]})
    assert "was none" in faults(controls={"bbr": []})


def test_the_control_of_the_data_is_that_of_the_busiest_connection_to_the_port() -> None:
    listed = (
        "ESTAB 0 0      198.18.0.1:40000 198.18.0.2:5201  cubic wscale:7,7 rto:264 bytes_sent:325 bytes_acked:326\n"
        "ESTAB 0 655360 198.18.0.1:40002 198.18.0.2:5201  bbr wscale:7,7 rto:264 bytes_sent:90000000 bbr:(bw:38Mbps)\n"
        "ESTAB 0 655360 198.18.0.1:40004 198.18.0.2:24000 reno wscale:7,7 rto:264 bytes_sent:99000000\n"
    )
    assert (data_control(listed, 5201), data_control(listed, 24000), data_control(listed, 1)) == ("bbr", "reno", None)
