"""Every TCP congestion control that Debian's 6.1 kernel has, on live sockets of the mover, in a guest under QEMU.

Each carries a directory over the guest's loopback, is switched to while a transfer runs, and is refused by name where the kernel does not
allow it to everybody; the mover is a user without any right throughout. Behaviour alone: how fast a guest is means nothing. Prints a
table, writes build/bench/tcp-variants.json, and fails with the names of the checks that did not pass.
"""

from __future__ import annotations

import argparse
import datetime
import json
import tempfile
from functools import partial
from pathlib import Path

from fairlead_dev.bench.lab.machine import version_of
from fairlead_dev.bench.rows import Row, heading, line, write
from fairlead_dev.bench.runner import BenchCommand, exit_with
from fairlead_dev.bench.tcp_variants.outcomes import failed, read_reports, rows_of
from fairlead_dev.bench.tcp_variants.plan import PLAN_FILE, GuestPlan, plan_of
from fairlead_dev.checkout import BINARIES, CACHE
from fairlead_dev.errors import CommandUsageError, LabError, LimitError
from fairlead_dev.guest import cpio, packages
from fairlead_dev.guest.machine import boot, find_qemu, first_files, last_words

SILENCE_LIMIT_S = 420
"""More than a check takes in a guest on a busy machine."""
_INSIDE = "fairlead_dev.bench.tcp_variants.inside"


def check(options: argparse.Namespace) -> int:
    """Runs the guest and judges what it reports; the exit code."""
    if not options.mover.exists():
        raise CommandUsageError(f"there is no {options.mover}: run `make rust` first")
    qemu = find_qemu(install=True)
    files = packages.ensure(CACHE, renew=options.renew)
    plan = plan_of(files.modules)
    with tempfile.TemporaryDirectory(prefix="fairlead-guest-") as folder:
        scratch = Path(folder)
        archive = scratch / "archive"
        archive.write_bytes(files.archive.read_bytes() + _ours(options.mover, plan))
        lines, problem = list[str](), ""
        try:
            for each in boot(qemu, files.kernel, archive, scratch, SILENCE_LIMIT_S):
                print(each[:160], flush=True)
                lines.append(each)
        except LimitError as error:
            problem = str(error)
        reports = read_reports(lines)
        rows = rows_of(plan.checks, reports)
        missing = [row.name for row in rows if row.note == "not reported"]
        problem = problem or (f"the guest ended early{last_words(scratch / 'console')}" if missing else "")
    kernel = next((report["kernel"] for report in reports if "kernel" in report), "unknown")
    print("\n".join([heading(), *(line(row) for row in rows), f"kernel: {kernel}"]))
    write([_about(kernel, qemu), *rows], options.output)
    if names := failed(rows):
        raise LabError(f"{len(names)} of {len(rows)} checks did not pass: {', '.join(names)}" + (f"\n{problem}" if problem else ""))
    return 0


def _ours(mover: Path, plan: GuestPlan) -> bytes:
    """What the guest has of this checkout."""
    return cpio.archive(
        [
            *first_files(_INSIDE),
            cpio.file("bin/fairlead-mover", mover.read_bytes(), program=True),
            cpio.file(PLAN_FILE, json.dumps(plan.to_json()).encode()),
        ]
    )


def _about(kernel: str, qemu: str) -> Row:
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    said = {
        "set": "development",
        "date": today,
        "command": "make test-tcp-variants",
        "kernel": kernel,
        "machine": f"QEMU {version_of([qemu, '--version'])} without KVM",
    }
    return Row("about", None, "", more=said)


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--mover", type=Path, default=BINARIES / "fairlead-mover", help="the mover to check, linked statically")
    parser.add_argument("--renew", action="store_true", help="make the guest of the newest packages (network)")


COMMAND = BenchCommand("tcp-variants", __doc__, _options, check)

if __name__ == "__main__":
    exit_with(partial(COMMAND.main))
