"""The six kinds of background traffic of OPS [Anvari 2021, figure 10b]: how many BBR and CUBIC flows."""

from typing import Final

CLASSES: Final = ("B0-C0", "B0-C1", "B1-C0", "B1-C1", "B1-B1", "C1-C1")
BBR_CLASSES: Final = frozenset({"B1-C0", "B1-C1", "B1-B1"})
HAS_BBR: Final = tuple(name in BBR_CLASSES for name in CLASSES)
