"""`python -m fairlead_dev.testbed`."""

from __future__ import annotations

import sys

from fairlead_dev.testbed.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
