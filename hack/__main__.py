"""`python3 hack ROOM ARGUMENT...`: runs a room of fairlead_dev where it is not installed. `cluster` and `trees` need nothing else."""

import runpy
import sys

if __name__ == "__main__":
    if sys.version_info < (3, 11):  # noqa: UP036 - an older one comes as far as this line
        sys.exit(f"this needs Python 3.11 or newer as `python3`, which is {sys.version.split()[0]} here")
    runpy.run_module(f"fairlead_dev.{sys.argv.pop(1)}", run_name="__main__", alter_sys=True)
