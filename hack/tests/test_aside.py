"""What gives way to the others of a machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from fairlead_dev.aside import NICENESS

ASIDE = [sys.executable, "-m", "fairlead_dev.aside"]
SAYS = "import os; print(os.nice(0), os.getsid(0), flush=True)"


def test_a_command_has_less_weight_in_a_session_of_its_own_and_its_exit_code_is_passed_on() -> None:
    done = subprocess.run([*ASIDE, sys.executable, "-c", f"{SAYS}; raise SystemExit(3)"], capture_output=True, text=True, check=False)
    niceness, session = done.stdout.split()
    assert (done.returncode, int(niceness)) == (3, NICENESS)
    assert int(session) != os.getsid(0)


def test_whoever_ends_it_ends_what_the_command_started() -> None:
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', '{SAYS}; import time; time.sleep(600)'])"
    with subprocess.Popen([*ASIDE, sys.executable, "-c", child], stdout=subprocess.PIPE, text=True) as aside:
        assert aside.stdout is not None
        assert aside.stdout.readline().startswith(f"{NICENESS} ")
        aside.send_signal(signal.SIGTERM)
        # The pipe ends when nobody holds it any more: the child of the child too.
        assert aside.stdout.read() == ""
        assert aside.wait() == 128 + signal.SIGTERM
