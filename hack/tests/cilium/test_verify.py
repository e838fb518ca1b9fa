"""`hack/cilium/verify` with a kubectl that answers as a cluster would: what it concludes, and what it leaves behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fairlead_dev.checkout import CHECKOUT

_KUBECTL = """#!{python}
import json, os, sys
words, world = sys.argv[1:], json.load(open(os.environ["WORLD"]))
with open(os.environ["WORLD"] + ".log", "a") as log:
    log.write(" ".join(words[:8]).replace(chr(10), " ") + chr(10))
line = " ".join(words)
def say(text):
    print(text)
    sys.exit(0)
if "configmap" in words:
    say(json.dumps({{"data": {{"enable-bandwidth-manager": world["manager"]}}}}))
if "cilium-dbg" in words:
    say("KVStore: Disabled" + chr(10) + "BandwidthManager:  " + world["agent"])
if "annotate" in words:
    world["cap"] = float(words[-1].partition("=")[2].rstrip("M"))
    json.dump(world, open(os.environ["WORLD"], "w"))
if words[:2] == ["create", "namespace"] and world["exists"]:
    print("already exists", file=sys.stderr)
    sys.exit(1)
if "service" in words:
    say("10.96.0.1")
if "podIP" in line:
    say("10.0.0.9")
if "block, sent" in line:
    say(round(1e6 * min(world["cap"] * world["excess"], 9000)))
if "print(\\"open\\")" in line:
    pod = words[words.index("exec") + 1]
    allowed = pod == "stranger" and "10.96.0.1" in line or pod == "source" and "24000" in line
    say("open" if allowed or not world["policies"] else "closed")
"""
GOOD = {"manager": "true", "agent": "EDT with BPF [CUBIC] [eth0]", "cap": 1e9, "excess": 0.97, "policies": True, "exists": False}


def _verify(folder: Path, world: dict[str, object]) -> tuple[subprocess.CompletedProcess[str], str]:
    """The script's outcome, and kubectl's commands."""
    for name, text in (("kubectl", _KUBECTL.format(python=sys.executable)), ("helm", "#!/bin/sh\necho 'kind: List'\n")):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    (folder / "world").write_text(json.dumps(world))
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "WORLD": str(folder / "world")}
    command = [sys.executable, str(CHECKOUT / "hack" / "cilium" / "verify")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    return done, (folder / "world.log").read_text()


@pytest.mark.parametrize(
    ("change", "failing"),
    [
        ({}, []),
        ({"manager": "false"}, ["enable-bandwidth-manager"]),
        ({"agent": "Disabled"}, ["an agent's own word"]),
        ({"excess": 1.5}, ["a cap of 100 Mb/s", "a cap of 50 Mb/s"]),
        ({"excess": 0.5}, ["a cap of 100 Mb/s", "a cap of 50 Mb/s"]),
        ({"policies": False}, ["other ports", "a sender to the API server", "another pod to a receiver"]),
    ],
    ids=["all is well", "off", "the kernel lacks fq", "caps are not held", "caps are held too low", "policies are not enforced"],
)
def test_each_check_fails_alone_and_nothing_is_left_behind(tmp_path: Path, change: dict[str, object], failing: list[str]) -> None:
    done, commands = _verify(tmp_path, GOOD | change)
    told = [line for line in done.stdout.splitlines() if line.startswith("FAIL")]
    assert len(told) == len(failing)
    assert all(part in line for part, line in zip(failing, told, strict=True)), told
    assert done.returncode == (1 if failing else 0), done.stderr
    assert "delete namespace fairlead-cilium-verify" in commands


def test_a_namespace_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    done, commands = _verify(tmp_path, GOOD | {"exists": True})
    assert (done.returncode, "already exists" in done.stderr) == (2, True)
    assert "delete" not in commands
