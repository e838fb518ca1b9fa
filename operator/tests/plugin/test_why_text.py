"""What `kubectl fairlead why` adds to the cause."""

from __future__ import annotations

from datetime import UTC, datetime

from plugin_objects import copying

from fairlead.api.transferjob import TransferJob
from fairlead.commands.explain.account import account_of
from fairlead.commands.explain.facts import Facts
from fairlead.plugin.why.cause import Cause, JobStanding
from fairlead.plugin.why.text import render

NOW = datetime(2026, 1, 2, 3, 10, tzinfo=UTC)


def test_why_a_protocol_was_chosen_stands_in_a_line_of_its_own() -> None:
    body = copying()
    cause = Cause(state=JobStanding.RUNNING, reasons=("InProgress",), because="its data move")
    assert "protocol" not in render(account_of(Facts(TransferJob.from_object(body))), cause, (), NOW).plain
    body["status"]["engineChoice"] = {"protocol": "QUIC", "message": "QUIC got 800M, TCP 200M", "weighed": []}
    text = render(account_of(Facts(TransferJob.from_object(body))), cause, (), NOW).plain
    assert "  protocol QUIC got 800M, TCP 200M\n" in text
