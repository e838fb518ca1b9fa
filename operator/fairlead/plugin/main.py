"""The entry of the program `kubectl-fairlead`, which kubectl finds on the path as `kubectl fairlead`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

_NEEDS = "kubectl fairlead: it needs the packages typer and rich: install it with `pip install 'fairlead[kubectl]'`"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; the exit code (`cluster.Exit`)."""
    try:
        import typer  # noqa: PLC0415 - the operator's package has it in the extra `kubectl` alone
    except ImportError:
        print(_NEEDS, file=sys.stderr)  # noqa: T201
        return 1
    from fairlead.plugin.cli import app  # noqa: PLC0415 - likewise
    from fairlead.plugin.cluster import PluginError  # noqa: PLC0415
    from fairlead.plugin.output import complain  # noqa: PLC0415

    try:
        app(args=None if arguments is None else list(arguments), prog_name="kubectl fairlead")
    except PluginError as error:
        complain(str(error))
        return int(error.code)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    assert typer
    return 0


if __name__ == "__main__":
    sys.exit(main())
