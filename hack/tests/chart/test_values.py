"""The chart's values: each described, none unknown, and defaults for what an earlier chart's values lack."""

from __future__ import annotations

import json
import re
import shutil
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead_dev.chart.render import CHART, HelmError, objects
from fairlead_dev.checkout import CHECKOUT
from fairlead_dev.generate import values as chart_values

VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA = chart_values.read_schema()
PREVIOUS = Path(__file__).parent / "data" / "fairlead-0.1.0.tgz"
"""The package of the chart before this one, as `helm package` made it."""


def _sections(schema: Mapping[str, Any], prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The groups of settings; the values themselves are the first."""
    yield prefix
    for name, part in schema["properties"].items():
        if chart_values.is_section(part):
            yield from _sections(part, (*prefix, name))


def _parts(schema: Any, path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if isinstance(schema, Mapping):
        yield path, schema
        for name, part in schema.items():
            yield from _parts(part, f"{path}/{name}")
    elif isinstance(schema, list):
        for number, part in enumerate(schema):
            yield from _parts(part, f"{path}/{number}")


def _nested(path: tuple[str, ...], value: Any) -> Any:
    return {path[0]: _nested(path[1:], value)} if path else value


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    """A copy whose values a test may change."""
    return shutil.copytree(CHART, tmp_path / "fairlead")


def test_each_value_is_described_and_has_a_schema() -> None:
    assert len(chart_values.read_values()) > 80


@pytest.mark.parametrize(
    ("values", "schema", "named"),
    [
        ("a: {b: 1}", {"a": {"type": "object", "properties": {"b": {}}}}, r"a\.b: values.yaml says nothing"),
        ("# -- A.\na: 1", {}, "a: values.schema.json does not have it"),
        ("# -- A.\n\na: 1", {"a": {}}, "a: values.yaml says nothing"),
    ],
)
def test_a_value_without_a_description_or_a_schema_is_named(values: str, schema: dict[str, Any], named: str) -> None:
    with pytest.raises(chart_values.ValuesError, match=named):
        list(chart_values.walk(values, {"properties": schema}))


def test_a_description_may_have_several_lines() -> None:
    (value,) = chart_values.walk("# -- One,\n# two.\na: 1", {"properties": {"a": {}}})
    assert (value.name, value.description) == ("a", "One, two.")


def test_no_part_of_the_schema_takes_what_it_does_not_know() -> None:
    # `global` is Helm's, and the terms of an affinity are checked by kubeconform.
    free = {"/properties/global"}
    opened = {
        path
        for path, part in _parts(SCHEMA, "")
        if part.get("type") == "object" and part.get("additionalProperties", True) is True and not path.endswith("/properties")
    }
    assert opened == free


def test_an_unknown_value_is_refused_at_every_level() -> None:
    sections = list(_sections(SCHEMA))
    assert len(sections) > 20
    values: dict[str, Any] = {}
    for path in sections:
        place = values
        for name in path:
            place = place.setdefault(name, {})
        place["surprise"] = 1
    with pytest.raises(HelmError) as refused:
        objects(values)
    missing = [
        path
        for path in sections
        if f"at '{''.join(f'/{name}' for name in path)}': additional properties 'surprise'" not in str(refused.value)
    ]
    assert missing == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"tolerations": [{"kye": "dtn"}]},
        {"nodeGuard": {"tolerations": [{"operator": "Equals"}]}},
        {"resources": {"limits": {"memory": "512Mb"}}},
        {"affinity": {"nodeAfinity": {}}},
        {"networkPolicy": {"metricsFrom": [{"podSelector": {"app": "prometheus"}}]}},
        {"podDisruptionBudget": {"maxUnavailable": 2}},
    ],
    ids=lambda value: next(iter(value)),
)
def test_a_mistake_inside_a_value_is_refused_too(wrong: dict[str, Any]) -> None:
    with pytest.raises(HelmError, match="don't meet the specifications of the schema"):
        objects(wrong)


def _by_identity(documents: list[dict[str, Any]]) -> dict[tuple[str, ...], dict[str, Any]]:
    return {(each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]): each for each in documents}


def test_values_that_lack_whole_sections_have_the_defaults(chart: Path) -> None:
    # As with `helm upgrade --reuse-values`. What is at the top is the administrator's to remove.
    (chart / "values.yaml").write_text(yaml.safe_dump({"resources": VALUES["resources"]}))
    assert _by_identity(objects({}, chart)) == _by_identity(objects({}))


def test_the_values_of_the_chart_before_this_one_may_be_kept(chart: Path) -> None:
    with tarfile.open(PREVIOUS) as package:
        member = package.extractfile("fairlead/values.yaml")
        assert member is not None
        (chart / "values.yaml").write_bytes(member.read())
    # As docs/reference/changes.md says, the only default that is another one.
    assert _by_identity(objects({}, chart)) == _by_identity(objects({"workers": 16}))


def test_a_new_version_of_the_chart_starts_other_images_by_its_default_tags() -> None:
    with tarfile.open(PREVIOUS) as package:
        member = package.extractfile("fairlead/Chart.yaml")
        assert member is not None
        before = yaml.safe_load(member.read())
    now = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert now["version"] != before["version"]
    assert now["appVersion"] != before["appVersion"]


def test_the_page_of_changes_begins_with_this_version_of_the_chart() -> None:
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["version"]
    headings = re.findall(r"^## (.+)$", (CHECKOUT / "docs" / "reference" / "changes.md").read_text(), re.MULTILINE)
    assert headings[0] == version


def test_values_that_lack_single_settings_have_the_defaults(chart: Path) -> None:
    def without_settings(values: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
        known = schema["properties"]
        inner = {name: without_settings(value, known[name]) for name, value in values.items() if chart_values.is_section(known[name])}
        return {name: value for name, value in values.items() if isinstance(value, dict | list)} | inner

    (chart / "values.yaml").write_text(yaml.safe_dump(without_settings(VALUES, SCHEMA)))
    assert _by_identity(objects({}, chart)) == _by_identity(objects({}))


def test_what_an_administrator_removes_stays_removed() -> None:
    (operator,) = (each for each in objects({"resources": {"limits": None}}) if each["kind"] == "Deployment")
    assert "limits" not in operator["spec"]["template"]["spec"]["containers"][0]["resources"]
    guard = objects({"nodeGuard": {"enabled": True, "tolerations": None}})
    (pods,) = (each["spec"]["template"]["spec"] for each in guard if each["kind"] == "DaemonSet")
    assert "tolerations" not in pods


def test_the_page_shows_each_value_with_its_default() -> None:
    page = chart_values.render_page()
    for value in chart_values.read_values():
        assert f"| `{value.name}` |" in page
    assert "`24000`" in page and json.dumps(VALUES["resources"]) in page
