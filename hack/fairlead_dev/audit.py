"""`make audit`: licences, sources and bans of the crates, and known flaws of every locked package.

The first need no network. Flaws are asked of RustSec's database (GitHub, by cargo-deny) and of PyPI (by pip-audit). What could not be asked
is *not audited*, never clean: pip-audit by itself calls a lock clean of which the index answers nothing.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from fairlead_dev.checkout import CHECKOUT

PYTHON_LOCKS = ("operator/requirements.lock", "images/advisor/requirements.lock", "images/build.lock", "hack/python/dev.lock")
EXIT_FLAWS = 1
EXIT_NOT_AUDITED = 3
_MOST_NAMED = 3

Run = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]


class AuditResult(Enum):
    """What a check came to."""

    CLEAN = "clean"
    FLAWS = "FLAWS"
    NOT_AUDITED = "NOT AUDITED"


@dataclass(frozen=True, slots=True)
class Check:
    """One check and its result; `why` has the tool's words unless it is clean."""

    name: str
    result: AuditResult
    why: str = ""


def check_policy(run: Run) -> Check:
    """Licences, bans and sources of the crates by deny.toml, without a network."""
    name = "crates: licences, bans, sources"
    done = run(["cargo", "deny", "--offline", "check", "--hide-inclusion-graph", "licenses", "bans", "sources"])
    return Check(name, AuditResult.CLEAN) if done.returncode == 0 else Check(name, AuditResult.FLAWS, done.stderr.strip())


def check_crates(run: Run) -> Check:
    """Known flaws of crates, and crates that were withdrawn, by RustSec's database."""
    name, done = "crates: known flaws", run(["cargo", "deny", "check", "--hide-inclusion-graph", "advisories"])
    if done.returncode == 0:
        return Check(name, AuditResult.CLEAN)
    unreachable = "advisory database" in done.stderr
    return Check(name, AuditResult.NOT_AUDITED if unreachable else AuditResult.FLAWS, done.stderr.strip())


def check_python_lock(run: Run, lock: str) -> Check:
    """Known flaws of a Python lock, by PyPI."""
    name = f"{lock}: known flaws"
    done = run([str(Path(sys.executable).with_name("pip-audit")), "--require-hashes", "--disable-pip", "--format=json", "-r", lock])
    try:
        packages = json.loads(done.stdout)["dependencies"]
        flawed = [f"{each['name']} {each['version']}: {flaw['id']}" for each in packages for flaw in each.get("vulns", ())]
        skipped = [f"{each['name']}: {each['skip_reason']}" for each in packages if "skip_reason" in each]
    except (ValueError, KeyError, TypeError):
        lines = done.stderr.strip().splitlines()
        return Check(name, AuditResult.NOT_AUDITED, lines[-1] if lines else f"pip-audit ended with {done.returncode} and said nothing")
    if flawed:
        return Check(name, AuditResult.FLAWS, "\n".join(flawed))
    if skipped or not packages:
        more = f"\nand {len(skipped) - _MOST_NAMED} more of {len(packages)}" if len(skipped) > _MOST_NAMED else ""
        return Check(name, AuditResult.NOT_AUDITED, "\n".join(skipped[:_MOST_NAMED]) + more)
    return Check(name, AuditResult.CLEAN)


def exit_code(checks: Sequence[Check]) -> int:
    """0 if all is clean, 1 with any flaw, 3 if something could not be asked."""
    results = {check.result for check in checks}
    if AuditResult.FLAWS in results:
        return EXIT_FLAWS
    return EXIT_NOT_AUDITED if AuditResult.NOT_AUDITED in results else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a line for each check, and why where it is not clean."""
    parser = argparse.ArgumentParser(prog="python -m fairlead_dev.audit", description=__doc__)
    parser.add_argument("--offline", action="store_true", help="only what needs no network")
    checks = [check_policy(_run)]
    if not parser.parse_args(arguments).offline:
        checks += [check_crates(_run), *(check_python_lock(_run, lock) for lock in PYTHON_LOCKS)]
    for check in checks:
        print(f"audit: {check.name}: {check.result.value}")
        if check.why:
            print("\n".join(f"    {line}" for line in check.why.splitlines()))
    return exit_code(checks)


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)


if __name__ == "__main__":
    sys.exit(main())
