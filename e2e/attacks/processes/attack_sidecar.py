"""A sidecar that was taken over asks its mover for more than the job allows."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path

from e2e.attacks.lib.judge import Judge, gains
from e2e.attacks.lib.movers import Mover, Movers, succeeded

PATIENCE_S = 20.0


def _patch(control: Path, change: dict[str, object]) -> int:
    """The status of the answer."""
    body = json.dumps(change).encode()
    with socket.socket(socket.AF_UNIX) as stream:
        stream.settimeout(PATIENCE_S)
        stream.connect(str(control))
        fields = ("PATCH /v1/transport HTTP/1.1", "Host: mover", "Connection: close", f"Content-Length: {len(body)}", "", "")
        stream.sendall("\r\n".join(fields).encode() + body)
        return int(stream.recv(4096).split(b" ", 2)[1])


def _started(movers: Movers, tmp_path: Path) -> tuple[Mover, Mover, Path]:
    """A slow transfer of a job with one to four streams: sender, receiver, control socket."""
    movers.write("own", bytes(8 << 20))
    control = tmp_path / "control.sock"
    default = Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
    # Programs before the options took no bounds at all.
    knows = b"FAIRLEAD_STREAMS_MAX" in movers.binary.read_bytes()
    bounds = ("--streams-max", "4", "--congestion-controls", default) if knows else ()
    receiver = movers.receiver()
    return movers.slow_sender(receiver.port, "--streams", "2", "--control-socket", str(control), *bounds), receiver, control


@gains("takes a link's other users their share")
def attack_by_asking_for_64_streams(movers: Movers, judge: Judge, tmp_path: Path) -> None:
    """The sidecar of a job with at most four streams asks for 64."""
    sender, receiver, control = _started(movers, tmp_path)
    assert _patch(control, {"streams": 4}) == 200
    status = _patch(control, {"streams": 64})
    sender.hurry()
    assert succeeded(sender.end(), receiver.end())
    judge(status == 422, f"status {status}")


@gains("takes a link's other users their share")
def attack_by_asking_for_a_congestion_control_that_is_not_listed(movers: Movers, judge: Judge, tmp_path: Path) -> None:
    """The sidecar asks for a congestion control that the kernel has and the job does not list."""
    sender, receiver, control = _started(movers, tmp_path)
    default = Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
    other = next(name for name in ("reno", "cubic", "bbr") if name != default)
    assert _patch(control, {"congestion_control": default}) == 200
    status = _patch(control, {"congestion_control": other})
    sender.hurry()
    assert succeeded(sender.end(), receiver.end())
    judge(status == 422, f"{other} beside {default}: status {status}")


@gains("holds a transfer up for ever without an error")
def attack_by_quiet_periods_without_end(movers: Movers, judge: Judge, tmp_path: Path) -> None:
    """The sidecar renews a quiet period of 15 s every second, for 45 s."""
    sender, receiver, control = _started(movers, tmp_path)
    began_s, refused_s = time.monotonic(), 0.0
    while not refused_s and time.monotonic() - began_s < 45:
        if _patch(control, {"quiet_for_ms": 15_000}) == 422:
            refused_s = time.monotonic() - began_s
        time.sleep(1)
    judge(bool(refused_s), f"refused after {refused_s:.0f} s" if refused_s else "still quiet after 45 s")
    assert _patch(control, {"quiet_for_ms": 0}) == 200
    sender.hurry()
    assert succeeded(sender.end(), receiver.end())
