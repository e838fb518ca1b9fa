"""The line that shows a running job, and where it is shown."""

from __future__ import annotations

import io

import pytest

from fairlead_dev.clients.kubectl import Object
from fairlead_dev.demo.progress import Display, LinkSample, link_rate_mbps, summary

RUNNING: Object = {
    "status": {
        "phase": "Transferring",
        "attempts": 1,
        "progress": {
            "bytesTotal": 600_000_000,
            "bytesTransferred": 250_000_000,
            "bytesSkipped": 8_000_000,
            "filesTotal": 2400,
            "filesTransferred": 1032,
            "percent": 43,
            "rate": "187M",
            "eta": "15s",
        },
        "path": {"rtt": "60.2ms"},
        "decision": {"congestionControl": "cubic", "streams": 4, "abstained": True, "reason": "NoModel"},
    }
}


def test_a_running_job_shows_phase_share_rate_eta_path_and_decision() -> None:
    assert summary(RUNNING, 193.25) == (
        "Transferring  [####......]  43 %  258 of 600 MB  1,032 of 2,400 files  ETA 15s",
        "link 193.2 Mb/s  rate 187Mb/s  RTT 60.2ms  cubic x 4 (abstained: NoModel)",
    )


def test_a_job_without_a_status_is_pending() -> None:
    assert summary({}, None) == ("Pending     ", "")


def test_a_pending_job_shows_what_it_waits_for() -> None:
    conditions = [
        {"type": "Accepted", "status": "True", "reason": "Accepted", "message": ""},
        {"type": "Scheduled", "status": "False", "reason": "Unschedulable", "message": "no node has the volume"},
    ]
    assert "Unschedulable: no node has the volume" in summary({"status": {"phase": "Pending", "conditions": conditions}}, None)[0]


def test_a_second_attempt_is_shown() -> None:
    assert "attempt 2" in summary({"status": {"phase": "Transferring", "attempts": 2}}, None)[1]


@pytest.mark.parametrize(
    ("before", "now", "rate_mbps"),
    [
        (LinkSample(10.0, 0), LinkSample(12.0, 50_000_000), 200.0),
        (LinkSample(10.0, 500), LinkSample(10.0, 900), None),
        (LinkSample(10.0, 900), LinkSample(12.0, 500), None),
    ],
    ids=["two seconds", "no time between", "counters began anew"],
)
def test_link_rate(before: LinkSample, now: LinkSample, rate_mbps: float | None) -> None:
    assert link_rate_mbps(before, now) == rate_mbps


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_terminal_lines_are_redrawn_in_place_and_cut_to_its_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "31")
    stream = Terminal()
    display = Display(stream)
    display.show(("one", "first " * 20), 1)
    display.show(("two", "second"), 2)
    assert stream.getvalue() == (
        "\x1b[K    1 s  one\n\x1b[K         first first first fir\n\x1b[2F\x1b[K    2 s  two\n\x1b[K         second\n"
    )


def test_elsewhere_every_look_is_a_line() -> None:
    stream = io.StringIO()
    display = Display(stream)
    display.show(("one", ""), 1)
    display.show(("two", "more"), 2)
    assert stream.getvalue() == "    1 s  one\n    2 s  two  more\n"
