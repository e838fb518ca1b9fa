"""Policies for tests, and rates as the status writes them."""

from __future__ import annotations

import pytest
from e2e.lib.policy import policy, rate_bps


@pytest.mark.parametrize(("text", "expected"), [("0", 0.0), ("500k", 5e5), ("20M", 2e7), ("9.97M", 9.97e6), ("2G", 2e9)])
def test_a_rate_is_read_as_the_status_writes_it(text: str, expected: float) -> None:
    assert rate_bps(text) == pytest.approx(expected)


@pytest.mark.parametrize("text", ["", "fast", "10Mi", "10 M", "-1M"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no rate"):
        rate_bps(text)


def test_each_namespace_is_a_tenant_by_its_own_name() -> None:
    tenants = policy("40M", {"one": 1, "other": 3})["spec"]["tenants"]
    assert [(tenant["name"], tenant["weight"]) for tenant in tenants] == [("one", 1), ("other", 3)]
    assert tenants[1]["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": "other"}}
