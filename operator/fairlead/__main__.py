"""Runs the operator: `python -m fairlead` or `fairlead`.

`fairlead allocate FILE` asks its sums without a cluster, `fairlead explain JOB` prints why a job stands where it stands,
`fairlead preflight JOB.yaml` checks a job before it is created, `fairlead selftest` moves a file as a test, `fairlead uninstall` lets
jobs go before the chart's release goes, and `fairlead guard` and `fairlead node-agent` are what runs on the nodes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command, or without one the operator; returns the exit code. Each imports what it needs alone: kopf takes a second."""
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] == ["allocate"]:
        from fairlead.commands import allocate  # noqa: PLC0415

        return allocate.main(words[1:])
    if words[:1] == ["explain"]:
        from fairlead.commands.explain import command as explain  # noqa: PLC0415

        return explain.main(words[1:])
    if words[:1] == ["preflight"]:
        from fairlead.commands.preflight import command as preflight  # noqa: PLC0415

        return preflight.main(words[1:])
    if words[:1] == ["uninstall"]:
        from fairlead.commands import uninstall  # noqa: PLC0415

        return uninstall.main(words[1:])
    if words[:1] == ["selftest"]:
        from fairlead.commands.selftest import command as selftest  # noqa: PLC0415

        return selftest.main(words[1:])
    if words[:1] == ["guard"]:
        from fairlead.guard import main as guard  # noqa: PLC0415

        return guard.main(words[1:])
    if words[:1] == ["node-agent"]:
        from fairlead.agent import main as agent  # noqa: PLC0415

        return agent.main(words[1:])
    from fairlead.handlers import process  # noqa: PLC0415

    return process.main(words)


if __name__ == "__main__":
    sys.exit(main())
