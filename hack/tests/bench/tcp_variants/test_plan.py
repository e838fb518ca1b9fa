"""Which controls are checked, by the modules that a kernel has."""

from __future__ import annotations

import pytest

from fairlead_dev.bench.tcp_variants.plan import BUILT_IN, REQUIRED, GuestPlan, plan_of
from fairlead_dev.errors import LabError

MODULES = {f"tcp_{name}": () for name in REQUIRED} | {"tcp_yeah": ("tcp_vegas",), "tcp_bbr": (), "tcp_diag": ("inet_diag",)}


def test_every_control_that_the_kernel_has_is_checked_and_nothing_else() -> None:
    plan = plan_of(MODULES)
    assert plan.controls == tuple(sorted({*REQUIRED, *BUILT_IN, "bbr"}))
    assert len(plan.checks) == len(set(plan.checks)) == 3 * len(plan.controls) + 4
    assert {"htcp_carries", "htcp_switched", "htcp_refused", "scavenger_lp"} <= set(plan.checks)


def test_a_module_is_loaded_after_those_that_it_needs() -> None:
    order = plan_of(
        {"tcp_vegas": ("tcp_yeah",), **{name: needed for name, needed in MODULES.items() if name != "tcp_vegas"}, "tcp_yeah": ()}
    ).modules
    assert order.index("tcp_yeah") < order.index("tcp_vegas")
    order = plan_of(MODULES).modules
    assert order.index("tcp_vegas") < order.index("tcp_yeah")
    assert "tcp_diag" not in order and len(order) == len(set(order)) == len(REQUIRED) + 1


def test_a_kernel_without_a_required_control_is_refused_by_its_name() -> None:
    with pytest.raises(LabError, match=r"no module for htcp, lp: .*--renew"):
        plan_of({name: needed for name, needed in MODULES.items() if name not in {"tcp_lp", "tcp_htcp"}})


def test_the_guest_reads_what_it_was_told() -> None:
    plan = plan_of(MODULES)
    assert GuestPlan.from_json(plan.to_json()) == GuestPlan(tuple(plan.controls), tuple(plan.modules))
