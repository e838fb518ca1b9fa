"""The entry point of all commands."""

from __future__ import annotations

import subprocess
import sys

LOADED_BY_COMMANDS = """
import contextlib, io, sys
from fairlead.__main__ import main
for command in ("explain", "preflight", "allocate", "uninstall", "selftest", "guard", "node-agent"):
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
        main([command, "--help"])
print(*sorted({"kopf", "fairlead.core", "fairlead.handlers.runtime"} & sys.modules.keys()))
"""


def test_commands_do_not_load_the_operator() -> None:
    loaded = subprocess.run([sys.executable, "-c", LOADED_BY_COMMANDS], check=True, capture_output=True, text=True).stdout
    assert loaded.split() == ["fairlead.core"]
