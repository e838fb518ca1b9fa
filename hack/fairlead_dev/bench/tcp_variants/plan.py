"""Which controls are checked, for what, and what the guest is told. Pure, and shared with the guest: the standard library alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairlead_dev.errors import LabError

REQUIRED = ("bic", "highspeed", "htcp", "hybla", "illinois", "lp", "scalable", "vegas", "westwood", "yeah")
"""Of the kernel's modules these must be there; the others that it has are checked as well."""
BUILT_IN = ("cubic", "reno")
PLAN_FILE = "plan.json"
"""In the guest's root."""
_PREFIX = "tcp_"
_NO_CONTROLS = frozenset({"diag"})

SCAVENGER = "scavenger_lp"
WITHOUT_UDP = "scavenger_without_udp"
SWITCH_REFUSED = "switch_refused"
DCTCP_ALONE = "dctcp_alone"
SINGLE_CHECKS = (SCAVENGER, WITHOUT_UDP, SWITCH_REFUSED, DCTCP_ALONE)
"""Those that are not for each control."""


def carries(control: str) -> str:
    """A directory moved with it from the first connection on."""
    return f"{control}_carries"


def switched(control: str) -> str:
    """Streams of a running transfer switched to it."""
    return f"{control}_switched"


def refused(control: str) -> str:
    """Not in the kernel's list of what everybody may use: refused by name, and nothing sent."""
    return f"{control}_refused"


@dataclass(frozen=True, slots=True)
class GuestPlan:
    """What the guest is to do."""

    controls: Sequence[str]
    modules: Sequence[str]
    """To load, in this order."""

    def to_json(self) -> dict[str, Any]:
        """Its form in the file."""
        return {"controls": list(self.controls), "modules": list(self.modules)}

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> GuestPlan:
        """Of the file's content."""
        return GuestPlan(tuple(content["controls"]), tuple(content["modules"]))

    @property
    def checks(self) -> list[str]:
        """The names of all checks, each of which the guest reports once."""
        return [check(control) for check in (carries, switched, refused) for control in self.controls] + list(SINGLE_CHECKS)


def plan_of(modules: Mapping[str, Iterable[str]]) -> GuestPlan:
    """The plan for a kernel with these modules for TCP, each with those that it needs. Raises LabError if a required one is missing."""
    named = {module: module.removeprefix(_PREFIX) for module in modules}
    offered = {name for name in named.values() if name not in _NO_CONTROLS}
    if missing := sorted(set(REQUIRED) - offered):
        raise LabError(f"the guest's kernel has no module for {', '.join(missing)}: take another one with VARIANTS_FLAGS=--renew")
    order: list[str] = []
    for module in sorted(module for module, name in named.items() if name in offered):
        _place(module, modules, order)
    return GuestPlan((*sorted(offered | set(BUILT_IN)),), order)


def _place(module: str, modules: Mapping[str, Iterable[str]], order: list[str]) -> None:
    if module in order or module not in modules:
        return
    for needed in modules[module]:
        _place(needed, modules, order)
    order.append(module)
