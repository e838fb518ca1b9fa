"""What `watch` and `top` draw on terminals of several kinds, and that nothing is drawn where there is none."""

from __future__ import annotations

import io
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import plugin_objects as objects
import pytest
from plugin_objects import NAMESPACE, NOW
from rich.console import Console, RenderableType
from stub_api import stub_api

from fairlead.api.datatransfernode import DataTransferNode
from fairlead.api.fairnesspolicy import FairnessPolicy
from fairlead.api.transferjob import TransferJob
from fairlead.plugin import nodes
from fairlead.plugin.main import main
from fairlead.plugin.output import Output
from fairlead.plugin.summary import in_order, summary_of
from fairlead.plugin.top import drawn
from fairlead.plugin.watch import table_of

PATIENCE_SECONDS = 600.0
JOBS = [objects.copying(), objects.waiting(), objects.suspended(), objects.failed(), objects.succeeded()]
NAMES = ["copying", "waiting", "suspended", "failed", "succeeded"]
"""In the order in which they are drawn."""
COLOUR = re.compile(r"\x1b\[[0-9;]*?\b(3[0-7]|9[0-7]|[34]8;[25])[0-9;]*m")
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
RED, GREEN, YELLOW, CYAN = "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[36m"
Draw = Callable[..., list[str]]


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal that knows colours, whatever the tests themselves run on."""
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def printed(shown: RenderableType, width: int = 120) -> tuple[str, Output]:
    """What a terminal gets, with its escapes, and the output that it was printed on."""
    # What is recorded is not yet without the colours that the terminal is not to have: the file is.
    file = io.StringIO()
    output = Output(as_json=False, console=Console(force_terminal=True, width=width, file=file))
    output.show(shown)
    return file.getvalue(), output


def lines_of(shown: RenderableType, width: int = 120) -> list[str]:
    return printed(shown, width)[0].splitlines()


def watched(bodies: Sequence[dict[str, Any]] = JOBS, *, with_namespace: bool = False) -> RenderableType:
    return table_of(in_order(summary_of(TransferJob.from_object(body), NOW) for body in bodies), with_namespace=with_namespace)


def policy() -> RenderableType:
    return drawn(FairnessPolicy.from_object(objects.policy()))


def bare(line: str) -> str:
    return ESCAPE.sub("", line)


def test_every_job_has_a_bar_in_the_colour_of_its_state() -> None:
    rows = lines_of(watched())[1:]
    assert [bare(row).split()[:2] for row in rows] == [
        ["copying", "Transferring"],
        ["waiting", "Pending"],
        ["suspended", "Suspended"],
        ["failed", "Failed"],
        ["succeeded", "Succeeded"],
    ]
    for row, colour in zip(rows, (GREEN, None, CYAN, RED, GREEN), strict=True):
        done = re.search(r"(\x1b\[3\dm)━", row)
        assert (done[1] if done else None) == colour, row
    assert "a shared link has no room for it" in bare(rows[1])
    assert "its source path does not exist" in bare(rows[3])


def test_a_bar_is_as_long_as_its_job_is_far(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    jobs = [objects.copying(f"job-{percent}", percent) for percent in (0, 25, 50, 100)]
    rows = lines_of(watched(jobs), 200)[1:]
    assert {bare(row).split()[0]: bare(row).count("━") for row in rows} == {"job-0": 0, "job-25": 6, "job-50": 12, "job-100": 24}


def test_the_job_that_copies_tells_its_bytes_rate_cap_and_transport() -> None:
    titles, copying = (bare(line).split() for line in lines_of(watched(), 160)[:2])
    assert titles == ["JOB", "PHASE", "%", "BYTES", "RATE", "CAP", "LEFT", "TRANSPORT", "WHY"]
    assert " ".join(copying[3:12]) == "40 400 GB/1 TB 1.6G 2G 50m bbr x8"


def test_jains_index_is_drawn_for_each_link_and_tenant_and_what_is_uneven_stands_out() -> None:
    lines = lines_of(policy())
    assert bare(lines[0]) == "FairnessPolicy site: 5 jobs, 1 waiting, Jain's index 0.93"
    found = {bare(line).split()[0]: line for line in lines if bare(line)}
    assert {name: re.findall(r"(\x1b\[3\dm)\s*(0\.\d+)", found[name])[-1] for name in ("out", "in", "bio", "others")} == {
        "out": (GREEN, "0.97"),
        "in": (YELLOW, "0.55"),
        "bio": (GREEN, "0.99"),
        "others": (YELLOW, "0.61"),
    }
    assert bare(lines[-1]) == "GuaranteesMet is False (NoRoom): bio gets 1G of 2G"
    assert lines[-1].startswith(YELLOW)


def test_a_links_bar_is_what_jobs_and_others_use_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    found = {bare(line).split()[0]: bare(line) for line in lines_of(policy(), 140) if bare(line)}
    assert (found["out"].count("━"), found["in"].count("━")) == (20, 6), "85 % and 25 % of 24 characters"


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
@pytest.mark.parametrize("with_namespace", [False, True])
def test_names_phases_and_percents_are_whole_however_narrow_the_terminal(width: int, with_namespace: bool) -> None:
    lines = [bare(line) for line in lines_of(watched(with_namespace=with_namespace), width)]
    assert max(len(line) for line in lines) <= width
    if width >= 80:
        for name, phase in zip(NAMES, ("Transferring", "Pending", "Suspended", "Failed", "Succeeded"), strict=True):
            row = next(line for line in lines if f" {name} " in f" {line}")
            assert phase in row
        assert [line.split()[0] for line in lines[1:]] == ([NAMESPACE] * 5 if with_namespace else NAMES)
        assert re.search(r" 40 ", lines[1])


@pytest.mark.parametrize("width", [60, 80, 120])
def test_jains_index_is_whole_however_narrow_the_terminal(width: int) -> None:
    text = "\n".join(bare(line) for line in lines_of(policy(), width))
    assert max(len(line) for line in text.splitlines()) <= width
    assert re.findall(r"0\.\d+$", text, re.MULTILINE) == ["0.93", "0.97", "0.55", "0.99", "0.61"]
    assert "…" not in text


def test_a_node_is_drawn_within_the_terminal_with_why_it_is_not_ready() -> None:
    node = DataTransferNode.from_object(objects.node())
    for shown in (nodes.table_of([node]), nodes.in_full(node)):
        lines = [bare(line) for line in lines_of(shown, 80)]
        assert max(len(line) for line in lines) <= 80
        assert re.match(r"dtn-a +geneva +False .*AgentSilent", lines[1])


def test_no_color_leaves_bars_and_takes_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    for shown in (watched(), policy()):
        text = "\n".join(lines_of(shown))
        assert not COLOUR.search(text)
        assert "━" in text


def test_a_dumb_terminal_gets_no_escapes_and_no_picture_that_is_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    for shown in (watched(), policy()):
        text, output = printed(shown)
        assert "\x1b" not in text
        assert "━" in text
        assert not output.is_live


@pytest.mark.parametrize(
    ("environment", "colours"), [({}, False), ({"FORCE_COLOR": "1"}, True), ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False)]
)
def test_what_is_no_terminal_gets_lines_without_colour_unless_that_is_forced(
    environment: dict[str, str], colours: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with stub_api(tmp_path, ("MODIFIED", objects.succeeded("copying")), jobs=[objects.copying()], fairnesspolicies=[objects.policy()]) as (
        _,
        kubeconfig,
    ):
        assert main(["watch", "copying", "--kubeconfig", str(kubeconfig)]) == 0
        lines = capsys.readouterr().out
        assert main(["top", "--kubeconfig", str(kubeconfig)]) == 0
        tables = capsys.readouterr().out
    assert [line.split(":")[0] for line in lines.splitlines()] == [
        "bio/copying Transferring 40 % 1.6G bit/s 50m left",
        "bio/copying Succeeded 100 % 1.6G bit/s",
    ]
    assert not re.search(r"\x1b\[[0-9;?]*[A-LN-Zhl]", lines + tables), "no cursor is moved"
    assert bool(COLOUR.search(tables)) is colours


class Terminal:
    """A program on a pseudo-terminal of 120 columns."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        self._master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (40, 120))
        unwanted = {"NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "TERM", "TTY_COMPATIBLE", "TTY_INTERACTIVE"}
        clean = {key: value for key, value in os.environ.items() if key not in unwanted}
        self.process = subprocess.Popen(
            # A test run in the background of a script has SIGINT ignored, and its children inherit that.
            ["env", "--default-signal=INT", "setsid", "--ctty", "--wait", sys.executable, "-m", "fairlead.plugin.main", *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**clean, **environment},
        )
        os.close(slave)
        self.shown = ""

    def until(self, words: str) -> None:
        """Reads what is drawn until it has `words`."""
        while words not in self.shown:
            assert select.select([self._master], [], [], PATIENCE_SECONDS)[0], self.shown
            assert self._read(), self.shown

    def press(self, key: bytes) -> None:
        os.write(self._master, key)

    def end(self) -> int:
        """What the program drew to its end, and its exit code."""
        while select.select([self._master], [], [], PATIENCE_SECONDS)[0] and self._read():
            pass
        os.close(self._master)
        return self.process.wait(PATIENCE_SECONDS)

    def _read(self) -> bool:
        try:
            data = os.read(self._master, 65536)
        except OSError:
            # The other side is closed.
            return False
        self.shown += data.decode(errors="replace")
        return bool(data)


@pytest.mark.parametrize(("environment", "bars", "colours"), [
    ({"TERM": "xterm-256color"}, True, True),
    ({"TERM": "xterm-256color", "NO_COLOR": "1"}, True, False),
    ({"TERM": "dumb"}, False, False),
])  # fmt: skip
def test_watch_draws_on_a_real_terminal_until_ctrl_c(environment: dict[str, str], bars: bool, colours: bool, tmp_path: Path) -> None:
    with stub_api(tmp_path, jobs=[objects.copying(), objects.failed()]) as (_, kubeconfig):
        terminal = Terminal("watch", "--kubeconfig", str(kubeconfig), **environment)
        terminal.until("its source path does not exist")
        terminal.press(b"\x03")
        assert terminal.end() == 128 + signal.SIGINT
    assert "interrupted; jobs that exist go on" in terminal.shown
    assert ("━" in terminal.shown, bool(COLOUR.search(terminal.shown))) == (bars, colours)
    if bars:
        assert terminal.shown.rindex("\x1b[?25h") > terminal.shown.rindex("\x1b[?25l"), "the cursor is there again"
    else:
        assert "\x1b" not in terminal.shown


def test_top_draws_on_a_real_terminal_until_ctrl_c(tmp_path: Path) -> None:
    with stub_api(tmp_path, fairnesspolicies=[objects.policy()]) as (_, kubeconfig):
        terminal = Terminal("top", "--kubeconfig", str(kubeconfig), TERM="xterm-256color")
        terminal.until("GuaranteesMet")
        terminal.press(b"\x03")
        assert terminal.end() == 128 + signal.SIGINT
    assert f"{YELLOW}0.55" in terminal.shown
