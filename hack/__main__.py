"""`python3 hack ROOM ARGUMENT...`: runs a room of fairlead_dev where it is not installed. `cluster` and `trees` need nothing else."""

import runpy
import sys

if __name__ == "__main__":
    runpy.run_module(f"fairlead_dev.{sys.argv.pop(1)}", run_name="__main__", alter_sys=True)
