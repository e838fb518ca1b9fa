"""Whom the movers of a namespace may run as: the administrator's ranges of user and group IDs, and what stands in for the API's default."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fairlead.api.transferjob.spec import HIGHEST_ID, UNPRIVILEGED_ID, SecurityContext

_RANGE = re.compile(r"([0-9]{1,10})(?:-([0-9]{1,10}))?", re.ASCII)
_RANGES = {"users": "users", "groups": "groups", "fsGroups": "fs_groups"}
_DEFAULTS = {"defaultUser": "default_user", "defaultGroup": "default_group"}


@dataclass(frozen=True, slots=True)
class IdRange:
    """IDs from `first` to `last`, both included."""

    first: int
    last: int

    def __contains__(self, number: int) -> bool:
        return self.first <= number <= self.last

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


@dataclass(frozen=True, slots=True)
class NamespaceIdentities:
    """What one namespace allows. A default replaces 65532, which is what a job has that names none."""

    users: tuple[IdRange, ...] = (IdRange(1, HIGHEST_ID),)
    groups: tuple[IdRange, ...] = (IdRange(0, HIGHEST_ID),)
    """Of primary and supplemental groups."""
    fs_groups: tuple[IdRange, ...] = (IdRange(0, HIGHEST_ID),)
    default_user: int | None = None
    default_group: int | None = None

    def resolve(self, wanted: SecurityContext) -> SecurityContext:
        """The IDs that the movers of a job run with."""
        resolved = {}
        if wanted.run_as_user == UNPRIVILEGED_ID and self.default_user is not None:
            resolved["run_as_user"] = self.default_user
        if wanted.run_as_group == UNPRIVILEGED_ID and self.default_group is not None:
            resolved["run_as_group"] = self.default_group
        return wanted.model_copy(update=resolved) if resolved else wanted

    def violation(self, wanted: SecurityContext) -> str | None:
        """The field with an ID that is not allowed, and what is; None if there is none."""
        context = self.resolve(wanted)
        checks = [
            ("runAsUser", context.run_as_user, self.users),
            ("runAsGroup", context.run_as_group, self.groups),
            *(("supplementalGroups", group, self.groups) for group in context.supplemental_groups),
        ]
        if context.fs_group is not None:
            checks.append(("fsGroup", context.fs_group, self.fs_groups))
        for name, number, ranges in checks:
            if not any(number in allowed for allowed in ranges):
                return f"securityContext.{name} is {number}, and allowed is {', '.join(map(str, ranges)) or 'none'}"
        return None


@dataclass(frozen=True, slots=True)
class Identities:
    """The rules of every namespace: its own, or the default ones."""

    default: NamespaceIdentities = field(default_factory=NamespaceIdentities)
    namespaces: Mapping[str, NamespaceIdentities] = field(default_factory=dict)

    @staticmethod
    def from_object(document: Mapping[str, Any]) -> Identities:
        """The rules from `{"default": {...}, "namespaces": {NAME: {...}}}`; a namespace has the default's where its own say nothing.

        Raises ValueError.
        """
        if not isinstance(document, Mapping):
            raise ValueError("must be an object in JSON")
        _refuse_unknown(document, {"default", "namespaces"}, "identities")
        default = _rules(document.get("default"), NamespaceIdentities(), "default")
        namespaces = document.get("namespaces") or {}
        if not isinstance(namespaces, Mapping):
            raise ValueError("namespaces: must be an object")
        return Identities(default, {name: _rules(own, default, f"namespaces.{name}") for name, own in namespaces.items()})

    def of(self, namespace: str) -> NamespaceIdentities:
        """The rules of one namespace."""
        return self.namespaces.get(namespace, self.default)


def _rules(document: object, base: NamespaceIdentities, where: str) -> NamespaceIdentities:
    if document is None:
        return base
    if not isinstance(document, Mapping):
        raise ValueError(f"{where}: must be an object")
    _refuse_unknown(document, {*_RANGES, *_DEFAULTS}, where)
    given: dict[str, Any] = {_RANGES[key]: _ranges(document[key], f"{where}.{key}") for key in _RANGES if key in document}
    given |= {_DEFAULTS[key]: document[key] for key in _DEFAULTS if key in document}
    rules = replace(base, **given)
    for key, number, allowed in (("defaultUser", rules.default_user, rules.users), ("defaultGroup", rules.default_group, rules.groups)):
        if number is not None and (type(number) is not int or not any(number in part for part in allowed)):
            raise ValueError(f"{where}.{key}: {number!r} is none of {', '.join(map(str, allowed)) or 'no ID'}")
    if any(0 in part for part in rules.users):
        raise ValueError(f"{where}.users: movers never run as root, so 0 cannot be allowed")
    return rules


def _ranges(texts: object, where: str) -> tuple[IdRange, ...]:
    if not isinstance(texts, list):
        raise ValueError(f"{where}: must be a list of ranges such as 10000-10999")
    return tuple(_range(text, where) for text in texts)


def _range(text: object, where: str) -> IdRange:
    found = _RANGE.fullmatch(str(text)) if type(text) in (str, int) else None
    if found is None:
        raise ValueError(f"{where}: {text!r} is no range such as 10000-10999")
    first, last = int(found[1]), int(found[2] or found[1])
    if not first <= last <= HIGHEST_ID:
        raise ValueError(f"{where}: {text} must rise and end at {HIGHEST_ID} at most")
    return IdRange(first, last)


def _refuse_unknown(document: Mapping[str, Any], known: set[str], where: str) -> None:
    unknown = sorted(set(document) - known)
    if unknown:
        raise ValueError(f"{where}: unknown {', '.join(unknown)}")
