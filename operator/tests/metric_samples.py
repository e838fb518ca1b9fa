"""Values in a page of metrics."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from prometheus_client.parser import text_string_to_metric_families


def value_of(text: str, name: str, labels: Mapping[str, str] = MappingProxyType({})) -> float | None:
    """The value of the sample with exactly these labels; None if the page has none."""
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    found = [sample.value for sample in samples if (sample.name, sample.labels) == (name, dict(labels))]
    assert len(found) <= 1, name
    return found[0] if found else None
