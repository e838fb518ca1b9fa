"""Of two runs on the local cluster the second one is refused."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
from pathlib import Path

import pytest

from fairlead_dev.checkout import CHECKOUT
from fairlead_dev.cluster.machine.shell import wait_until

PROBE = "probe:\n\t@$(USE_CLUSTER); trap 'echo down' EXIT; { %s; } {use}>&-"


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    file = tmp_path / "fairlead" / ".use.lock"
    file.parent.mkdir()
    return file


def probed(lock: Path, command: str) -> subprocess.CompletedProcess[str]:
    """A target of the Makefile that uses the cluster for this command."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(
        ["make", "--no-print-directory", "-C", str(CHECKOUT), f"--eval={PROBE % command}", "probe"],
        env={**environment, "XDG_CACHE_HOME": str(lock.parent.parent)},
        capture_output=True,
        text=True,
        check=False,
    )


def is_free(lock: Path) -> bool:
    with lock.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def test_a_run_has_the_cluster_to_itself_until_it_ends(lock: Path) -> None:
    done = probed(lock, f"flock --nonblock {lock} echo free || echo in use")
    assert (done.returncode, done.stdout, done.stderr) == (0, "in use\ndown\n", "")
    assert is_free(lock)


def test_a_second_run_is_refused_before_it_does_anything_and_names_the_first(lock: Path) -> None:
    lock.write_text("make test in /somewhere, process 12\n")
    with lock.open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        done = probed(lock, "echo joined")
    assert done.returncode != 0
    assert done.stdout == ""
    assert "The local cluster is in use by `make test in /somewhere, process 12`" in done.stderr


def test_a_run_that_failed_frees_the_cluster_and_has_its_exit_code(lock: Path) -> None:
    done = probed(lock, "false && echo more")
    assert (done.returncode, done.stdout) == (2, "down\n")
    assert is_free(lock)


def test_what_a_run_leaves_behind_does_not_keep_the_cluster(lock: Path) -> None:
    done = probed(lock, "sleep 60 >/dev/null 2>&1 & echo $$!")
    left = int(done.stdout.split()[0])
    try:
        # Until it becomes `sleep`, what the shell has forked holds what the shell does.
        wait_until(lambda: is_free(lock), "the cluster to be free", timeout_s=30)
        assert Path(f"/proc/{left}").exists()
    finally:
        os.kill(left, 9)


def test_every_target_that_stops_the_cluster_has_it_to_itself() -> None:
    text = (CHECKOUT / "Makefile").read_text()
    stopping = re.findall(r"^([a-z0-9-]+):.*\n\t(.*)trap '\$\(CLUSTER_DOWN\)' EXIT;", text, re.MULTILINE)
    assert {name for name, before in stopping if not before.startswith("$(USE_CLUSTER)")} == {"attacks-on-cluster"}, "a part of others"
    assert {"test", "test-e2e", "chaos"} <= {name for name, _ in stopping}
