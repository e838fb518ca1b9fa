from __future__ import annotations

from typing import Any

import pytest

from fairlead.api.transferjob.spec import SecurityContext
from fairlead.core.identities import Identities

RULES = Identities.from_object(
    {
        "default": {"groups": ["1-65535"]},
        "namespaces": {
            "physics": {
                "users": ["10000-10999", 500],
                "defaultUser": 10000,
                "groups": ["10000-10999"],
                "defaultGroup": 10001,
                "fsGroups": ["10000-10999"],
            },
            "closed": {"users": [], "fsGroups": []},
        },
    }
)


def _context(**fields: Any) -> SecurityContext:
    return SecurityContext.model_validate(fields)


@pytest.mark.parametrize(
    ("namespace", "fields", "violation"),
    [
        ("physics", {}, None),
        ("physics", {"runAsUser": 10999, "runAsGroup": 10000}, None),
        ("physics", {"runAsUser": 500}, None),
        ("physics", {"runAsUser": 1000}, "securityContext.runAsUser is 1000, and allowed is 10000-10999, 500"),
        ("physics", {"runAsUser": 11000}, "securityContext.runAsUser is 11000, and allowed is 10000-10999, 500"),
        ("physics", {"runAsGroup": 0}, "securityContext.runAsGroup is 0, and allowed is 10000-10999"),
        ("physics", {"supplementalGroups": [10001, 5]}, "securityContext.supplementalGroups is 5, and allowed is 10000-10999"),
        ("physics", {"fsGroup": 100}, "securityContext.fsGroup is 100, and allowed is 10000-10999"),
        ("closed", {}, "securityContext.runAsUser is 65532, and allowed is none"),
        ("elsewhere", {}, None),
        ("elsewhere", {"runAsGroup": 0}, "securityContext.runAsGroup is 0, and allowed is 1-65535"),
        ("elsewhere", {"runAsUser": 1, "fsGroup": 0}, None),
        ("elsewhere", {"runAsUser": 0}, "securityContext.runAsUser is 0, and allowed is 1-2147483647"),
    ],
)
def test_an_id_outside_the_namespaces_ranges_is_named_with_its_field(namespace: str, fields: dict[str, Any], violation: str | None) -> None:
    assert RULES.of(namespace).violation(_context(**fields)) == violation


def test_the_namespaces_default_stands_in_for_an_id_that_the_job_does_not_name() -> None:
    resolved = RULES.of("physics").resolve(_context())
    assert (resolved.run_as_user, resolved.run_as_group) == (10000, 10001)
    named = RULES.of("physics").resolve(_context(runAsUser=500, runAsGroup=10002))
    assert (named.run_as_user, named.run_as_group) == (500, 10002)
    assert RULES.of("elsewhere").resolve(_context()) == _context()


def test_without_rules_every_id_but_root_is_allowed() -> None:
    rules = Identities().of("physics")
    assert rules.violation(_context(runAsUser=1, runAsGroup=0, fsGroup=0, supplementalGroups=[0])) is None
    assert rules.violation(_context(runAsUser=0)) is not None


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"defaults": {}}, "unknown defaults"),
        ({"default": {"user": []}}, "default: unknown user"),
        ({"default": {"users": "1-5"}}, "must be a list"),
        ({"default": {"users": ["5-1"]}}, "must rise"),
        ({"default": {"users": ["1-9999999999"]}}, "2147483647 at most"),
        ({"default": {"users": ["a"]}}, "no range"),
        ({"default": {"users": [7.5]}}, "no range"),
        ({"default": {"users": [-7]}}, "no range"),
        ({"namespaces": {"n": {"users": ["0-5"]}}}, "namespaces.n.users: movers never run as root"),
        ({"namespaces": {"n": {"users": ["1-5"], "defaultUser": 6}}}, "namespaces.n.defaultUser: 6 is none of 1-5"),
        ({"namespaces": {"n": {"defaultGroup": "6"}}}, "defaultGroup"),
    ],
)
def test_rules_that_cannot_work_are_refused_by_name(document: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Identities.from_object(document)
