"""Where things are in this checkout."""

import os
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
BINARIES = CHECKOUT / "build" / "bin"
"""The programs that `make rust` and `make programs` build."""
BENCH_RESULTS = CHECKOUT / "build" / "bench"
"""Where every bench writes its figures, as NAME.json."""
WAN_DATA = CHECKOUT / "hack" / "wan"
"""Holds the test bed's scenarios and data sets."""
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fairlead"
"""Outside the checkout: what is costly to make or to fetch."""
