"""What the mover's control socket says, read strictly: the contract's numbers, and nothing that later arithmetic trips over."""

from pathlib import Path
from typing import Any

import pytest

from fairlead_advisor.decide.transfer import MoverStats, TransportSettings
from fairlead_advisor.errors import MoverAnswerError
from fairlead_advisor.steer.mover import Mover
from tests.support.fake_mover import FakeMover, serving_mover

HUGE = 10**400
STREAM: dict[str, Any] = {"id": 0, "bytes_sent": 2**64 - 1, "retransmits": 7, "rtt_seconds": 0.06}


async def told(tmp_path: Path, stream: dict[str, Any], **more: Any) -> MoverStats:
    answer = {"stage": "Transferring", "available_congestion_controls": ["cubic"], "streams": [stream]}
    async with serving_mover(FakeMover(garbage=answer | more), tmp_path / "control.sock"), Mover(tmp_path / "control.sock") as mover:
        return await mover.stats()


async def test_counters_of_64_bits_are_read(tmp_path: Path) -> None:
    (stream,) = (await told(tmp_path, STREAM)).streams
    assert (stream.bytes_sent, stream.retransmits, stream.rtt_s) == (2**64 - 1, 7, 0.06)


async def test_a_mover_that_names_no_protocol_has_tcp(tmp_path: Path) -> None:
    assert (await told(tmp_path, STREAM)).protocol == "TCP"
    assert (await told(tmp_path, STREAM, protocol="QUIC", socket_buffer=None)).protocol == "QUIC"


async def test_the_time_of_the_reading_is_known_if_the_mover_gives_it(tmp_path: Path) -> None:
    assert (await told(tmp_path, STREAM)).read_at_s is None
    assert (await told(tmp_path, STREAM, read_at_seconds=12.5)).read_at_s == 12.5


@pytest.mark.parametrize("field", ["id", "bytes_sent", "retransmits", "rtt_seconds"])
@pytest.mark.parametrize("value", [HUGE, 2**64, -HUGE], ids=["huge", "65 bits", "hugely negative"])
async def test_a_number_that_no_float_holds_is_refused_with_its_field(tmp_path: Path, field: str, value: int) -> None:
    with pytest.raises(MoverAnswerError, match=f"streams: {field} is not"):
        await told(tmp_path, STREAM | {field: value})


@pytest.mark.parametrize("field", ["automatic_bytes", "settable_bytes", "bytes"])
async def test_a_huge_send_buffer_is_refused_with_its_field(tmp_path: Path, field: str) -> None:
    buffer = {"bytes": None, "set_by": "Kernel", "automatic_bytes": 4 * 2**20, "settable_bytes": 8 * 2**20}
    with pytest.raises(MoverAnswerError, match=f"socket_buffer: {field} is not"):
        await told(tmp_path, STREAM, socket_buffer=buffer | {field: HUGE})


async def test_a_huge_count_in_force_is_refused(tmp_path: Path) -> None:
    mover = FakeMover(in_force={"congestion_control": "cubic", "streams": HUGE})
    async with serving_mover(mover, tmp_path / "control.sock"), Mover(tmp_path / "control.sock") as client:
        with pytest.raises(MoverAnswerError, match="streams is not"):
            await client.set_transport(TransportSettings("cubic", None))
