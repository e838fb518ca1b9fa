"""What runs in the processors' idle time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

IDLE = [sys.executable, "-m", "fairlead_dev.idle"]
SAYS = "import os; print(os.sched_getscheduler(0) == os.SCHED_IDLE, os.getsid(0), flush=True)"


def test_a_command_has_the_idle_policy_in_a_session_of_its_own_and_its_exit_code_is_passed_on() -> None:
    done = subprocess.run([*IDLE, sys.executable, "-c", f"{SAYS}; raise SystemExit(3)"], capture_output=True, text=True, check=False)
    is_idle, session = done.stdout.split()
    assert (done.returncode, is_idle) == (3, "True")
    assert int(session) != os.getsid(0)


def test_whoever_ends_it_ends_what_the_command_started() -> None:
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', '{SAYS}; import time; time.sleep(600)'])"
    with subprocess.Popen([*IDLE, sys.executable, "-c", child], stdout=subprocess.PIPE, text=True) as idle:
        assert idle.stdout is not None
        assert idle.stdout.readline().startswith("True")
        idle.send_signal(signal.SIGTERM)
        # The pipe ends when nobody holds it any more: the child of the child too.
        assert idle.stdout.read() == ""
        assert idle.wait() == 128 + signal.SIGTERM
