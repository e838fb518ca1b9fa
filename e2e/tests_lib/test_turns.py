"""Tests that share and tests that must be alone, across processes; and what is done once for all of them."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from e2e.lib.turns import CLUSTER, PROCESSORS, SHARED, once, turn
from e2e.lib.waiting import wait_until

CHECKOUT = Path(__file__).resolve().parents[2]


def free_for(lock_file: Path, operation: int) -> bool:
    """Whether another holder would get the lock; each opening of the file is a holder of its own, as if in another process."""
    with lock_file.open("a") as handle:
        try:
            fcntl.flock(handle, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


@pytest.mark.parametrize("name", SHARED)
def test_sharing_tests_run_together_and_keep_out_one_that_must_be_alone(tmp_path: Path, name: str) -> None:
    lock = tmp_path / f"{name}.lock"
    with turn(tmp_path):
        assert free_for(lock, fcntl.LOCK_SH)
        assert not free_for(lock, fcntl.LOCK_EX)
    assert free_for(lock, fcntl.LOCK_EX)


@pytest.mark.parametrize("name", SHARED)
def test_one_that_has_all_of_it_alone_keeps_out_everyone(tmp_path: Path, name: str) -> None:
    with turn(tmp_path, SHARED):
        assert not free_for(tmp_path / f"{name}.lock", fcntl.LOCK_SH)


@pytest.mark.parametrize(("name", "other"), [(PROCESSORS, CLUSTER), (CLUSTER, PROCESSORS)])
def test_one_that_needs_a_part_alone_keeps_out_who_shares_and_leaves_the_rest_to_one_that_needs_that(
    tmp_path: Path, name: str, other: str
) -> None:
    with turn(tmp_path, [name]):
        assert not free_for(tmp_path / f"{name}.lock", fcntl.LOCK_SH)
        assert free_for(tmp_path / f"{other}.lock", fcntl.LOCK_EX)


WAITS_FOR_ALL = """
import sys
from pathlib import Path
from e2e.lib.turns import turn

with turn(Path(sys.argv[1]), sys.argv[2:]):
    pass
"""


def is_awaited(lock_file: Path) -> bool:
    """Whether somebody waits for the lock."""
    inode = lock_file.stat().st_ino
    return any("->" in line and f":{inode} " in line for line in Path("/proc/locks").read_text().splitlines())


@pytest.mark.parametrize("alone", [SHARED, ()], ids=["to have it alone", "to share it"])
@pytest.mark.parametrize(("name", "other"), [(PROCESSORS, CLUSTER), (CLUSTER, PROCESSORS)])
def test_one_that_waits_for_all_of_it_holds_nothing_of_it_meanwhile(tmp_path: Path, name: str, other: str, alone: tuple[str, ...]) -> None:
    command = [sys.executable, "-c", WAITS_FOR_ALL, str(tmp_path), *alone]
    with ExitStack() as stack:
        held = stack.enter_context(ExitStack())
        held.enter_context(turn(tmp_path, [name]))
        waiting = stack.enter_context(subprocess.Popen(command, cwd=CHECKOUT))
        wait_until(lambda: is_awaited(tmp_path / f"{name}.lock"), "somebody who waits for the part that is taken")
        assert free_for(tmp_path / f"{other}.lock", fcntl.LOCK_EX)
        assert waiting.poll() is None
        held.close()
        assert waiting.wait() == 0


def test_what_nobody_shares_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="disk is nothing that tests share"), turn(tmp_path, ["disk"]):
        pass


def test_what_is_done_once_is_done_by_the_first(tmp_path: Path) -> None:
    turns = []
    for token in ("run-1", "run-1", "run-2"):
        with once(tmp_path / "marker", token, tmp_path / "lock") as first:
            turns.append(first)
    assert turns == [True, False, True]


def test_the_next_one_tries_after_a_failure(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="helm"), once(tmp_path / "marker", "run", tmp_path / "lock"):
        raise OSError("helm")
    with once(tmp_path / "marker", "run", tmp_path / "lock") as first:
        assert first


GROUPED = """
import os
import pytest
from e2e.lib.turns import SECOND_PATH

@pytest.mark.parametrize("number", range(4))
@SECOND_PATH
def test_one_of_the_group(number):
    print("in", os.environ["PYTEST_XDIST_WORKER"])

@pytest.mark.parametrize("number", range(4))
def test_another(number):
    pass
"""


def test_tests_of_the_second_path_run_in_one_worker(tmp_path: Path) -> None:
    """pytest-xdist says nothing where it cannot keep a group together, and one test then cuts the path of another."""
    (tmp_path / "test_grouped.py").write_text(GROUPED)
    command = (sys.executable, "-m", "pytest", "-q", "-rP", "-n", "4", "--dist", "loadgroup", "-p", "no:cacheprovider", str(tmp_path))
    printed = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True, timeout=800).stdout
    workers = [line for line in printed.splitlines() if line.startswith("in ")]
    assert len(workers) == 4
    assert len(set(workers)) == 1
