"""Certificates and connections that are not the sender's."""

from __future__ import annotations

from e2e.attacks.lib.judge import Judge, gains
from e2e.attacks.lib.movers import Movers, succeeded


@gains("writes into another job's destination")
def attack_with_another_jobs_certificate(movers: Movers, judge: Judge) -> None:
    """A sender with the certificate of another job connects to a waiting receiver."""
    movers.write("file", b"stolen")
    movers.credentials("other", job="other")
    receiver = movers.receiver()
    stranger = movers.sender(receiver.port, "--peer-timeout", "3", credentials="other/sender").end()
    judge(stranger.code != 0 and not movers.destination.joinpath("file").exists(), str(stranger))
    own = movers.sender(receiver.port)
    assert succeeded(own.end(), receiver.end())
