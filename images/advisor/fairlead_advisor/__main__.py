"""`python -m fairlead_advisor` is the same as the command `fairlead-advisor`."""

import sys

from fairlead_advisor.cli import main

if __name__ == "__main__":
    sys.exit(main())
