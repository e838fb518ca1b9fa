"""The CRD that is made from the models keeps the rules that Kubernetes and its users rely on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.api.fairnesspolicy import FairnessPolicy
from fairlead.api.reasons import (
    ConditionType,
    EventReason,
    MoverReason,
    PathConditionType,
    PathReason,
    PolicyConditionType,
    PolicyReason,
    Reason,
)
from fairlead.api.transferjob import TransferJob
from fairlead_dev.checkout import CHECKOUT
from fairlead_dev.generate import crd
from fairlead_dev.generate.__main__ import outputs, stale

SCHEMAS: dict[str, dict[str, Any]] = {resource.kind: crd.resource_schema(resource) for resource in crd.RESOURCES}
SCHEMA = SCHEMAS["TransferJob"]
STRUCTURAL = {"type", "description", "properties", "items", "required", "default", "enum", "format", "pattern"} | {
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "additionalProperties",
    "maxProperties",
    "minimum",
    "maximum",
    "x-kubernetes-validations",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
}
INT_OR_STRING = "x-kubernetes-int-or-string"


def walk(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from walk(child, f"{path}.{name}")
    if "items" in schema:
        yield from walk(schema["items"], f"{path}[]")
    if "additionalProperties" in schema:
        yield from walk(schema["additionalProperties"], f"{path}[]")


def part(name: str) -> list[tuple[str, dict[str, Any]]]:
    return [(f"{kind}.{path}", schema) for kind, whole in SCHEMAS.items() for path, schema in walk(whole["properties"][name], name)]


SPEC, STATUS = part("spec"), part("status")


def test_what_is_checked_in_is_what_the_models_say() -> None:
    assert stale(outputs(), CHECKOUT) == []


def test_a_file_that_differs_or_is_missing_is_stale(tmp_path: Path) -> None:
    (tmp_path / "same").write_text("x")
    (tmp_path / "other").write_text("y")
    files = {Path("same"): "x", Path("other"): "x", Path("missing"): "x"}
    assert stale(files, tmp_path) == [Path("other"), Path("missing")]


@pytest.mark.parametrize(("path", "schema"), SPEC + STATUS, ids=[path for path, _ in SPEC + STATUS])
def test_every_node_is_structural(path: str, schema: dict[str, Any]) -> None:
    assert schema.keys() <= STRUCTURAL | {INT_OR_STRING}, path
    assert ("type" in schema) != schema.get(INT_OR_STRING, False), path


@pytest.mark.parametrize(("path", "schema"), SPEC + STATUS, ids=[path for path, _ in SPEC + STATUS])
def test_every_field_is_described(path: str, schema: dict[str, Any]) -> None:
    if not path.endswith("[]"):
        assert schema["description"].endswith("."), path


@pytest.mark.parametrize(("path", "schema"), SPEC, ids=[path for path, _ in SPEC])
def test_everything_a_user_writes_is_bounded(path: str, schema: dict[str, Any]) -> None:
    match schema.get("type", INT_OR_STRING):
        case "x-kubernetes-int-or-string":
            assert "x-kubernetes-validations" in schema, path
        case "string":
            assert "maxLength" in schema or "enum" in schema, path
        case "array":
            assert {"maxItems", "x-kubernetes-list-type"} <= schema.keys(), path
        case "object":
            assert "properties" in schema or "maxProperties" in schema, path
        case "integer":
            assert {"minimum", "maximum"} <= schema.keys(), path


def test_every_rule_names_a_field_and_a_remedy() -> None:
    rules = [(path, schema, rule) for path, schema in SPEC for rule in schema.get("x-kubernetes-validations", [])]
    assert len(rules) > 10
    for path, schema, rule in rules:
        last = path.rpartition(".")[2]
        named = last.removesuffix("[]") in rule["message"] or any(name in rule["message"] for name in schema.get("properties", {}))
        assert named or last == "spec", rule
        assert ":" in rule["message"], rule


def test_a_default_that_rules_are_evaluated_on_is_whole() -> None:
    for path, schema in SPEC:
        if schema.get("type") == "object" and "default" in schema:
            with_default = {name for name, child in schema["properties"].items() if "default" in child}
            assert schema["default"].keys() == with_default, path


def test_nothing_but_changeable_fields_may_change() -> None:
    frozen = {
        name
        for name, schema in SCHEMA["properties"]["spec"]["properties"].items()
        if any(rule["rule"] == "self == oldSelf" for rule in schema.get("x-kubernetes-validations", []))
    }
    changeable = {"suspend", "bandwidth", "priority", "ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit"}
    assert frozen | changeable == SCHEMA["properties"]["spec"]["properties"].keys()
    assert not frozen & changeable


@pytest.mark.parametrize("kind", SCHEMAS)
def test_conditions_merge_by_type(kind: str) -> None:
    conditions = SCHEMAS[kind]["properties"]["status"]["properties"]["conditions"]
    assert (conditions["x-kubernetes-list-type"], conditions["x-kubernetes-list-map-keys"]) == ("map", ["type"])


@pytest.mark.parametrize("resource", crd.RESOURCES, ids=lambda resource: resource.kind)
def test_columns_show_fields_that_exist(resource: Any) -> None:
    known = {f".{path.partition('.')[2]}" for path, _ in SPEC + STATUS if path.startswith(f"{resource.kind}.")}
    for column in resource.columns:
        plain = column.json_path.split("[?")[0]
        assert plain in known or plain == ".metadata.creationTimestamp", column


def test_the_servers_defaults_are_the_models_defaults() -> None:
    def fill(schema: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
        filled = dict(given)
        for name, child in schema.get("properties", {}).items():
            if name not in filled and "default" in child:
                filled[name] = child["default"]
            if isinstance(filled.get(name), dict):
                filled[name] = fill(child, filled[name])
            if isinstance(filled.get(name), list) and "properties" in child.get("items", {}):
                filled[name] = [fill(child["items"], item) for item in filled[name]]
        return filled

    claim = {"volume": {"persistentVolumeClaim": {"claimName": "x"}}}
    bare = {"source": claim, "destination": claim}
    metadata = {"name": "n", "namespace": "n", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    stored = fill(SCHEMA["properties"]["spec"], bare)
    assert TransferJob.from_object({"metadata": metadata, "spec": stored}) == TransferJob.from_object({"metadata": metadata, "spec": bare})
    assert TransferJob.from_object({"metadata": metadata, "spec": bare}).spec.to_object() == stored

    link = {"name": "wan", "interfaces": [{"node": "n", "name": "eth0", "direction": "Transmit"}], "capacity": "1G"}
    policy = {"links": [link], "tenants": [{"name": "t", "namespaceSelector": {"matchLabels": {"a": "b"}}}]}
    stored = fill(SCHEMAS["FairnessPolicy"]["properties"]["spec"], policy)
    assert FairnessPolicy.from_object({"metadata": metadata, "spec": policy}).spec.to_object() == stored


@pytest.mark.parametrize("constants", [ConditionType, Reason, MoverReason, EventReason, PathConditionType, PathReason])
def test_every_constant_is_explained(constants: type[Reason]) -> None:
    for member in constants:
        assert member.meaning.endswith("."), member
        assert member.isalnum()
        assert member[0].isupper()


def test_the_movers_reasons_are_those_of_the_contract() -> None:
    contract = (CHECKOUT / "docs" / "contracts.md").read_text()
    listed = re.search(r"`reason` \(closed list\):(.*?)\.\n", contract, re.DOTALL)
    assert listed is not None
    assert {reason.value for reason in MoverReason} == set(re.findall(r"`([A-Z]\w+)`", listed.group(1)))


@pytest.mark.parametrize(
    "constants", [ConditionType, Reason, EventReason, PolicyConditionType, PolicyReason, PathConditionType, PathReason]
)
def test_no_constant_is_documented_that_the_operator_never_uses(constants: type[Reason]) -> None:
    package = CHECKOUT / "operator" / "fairlead"
    source = "".join(path.read_text() for path in package.rglob("*.py") if path.name != "reasons.py")
    assert [member.name for member in constants if f"{constants.__name__}.{member.name}" not in source] == []
