"""`fairlead allocate FILE.yaml`: who would get how much of the links in a file, as JSON.

The file and the output are described in docs/explanation/fair-shares.md.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from fairlead.api.shared.quantity import RateError, parse_rate
from fairlead.core.allocation import Allocation, AllocationInputError, AllocationJob, AllocationLink, AllocationTenant, allocate

EXIT_USAGE = 2
_REQUIRED = object()


class _FileError(Exception):
    """The file cannot be read as YAML; the message says why and what to do."""


def main(arguments: Sequence[str]) -> int:
    """Prints the allocation of a file. Returns the exit code: 0, or 2 with one line on standard error if the input is wrong."""
    parser = argparse.ArgumentParser(
        prog="fairlead allocate",
        description="Prints the fair share of every job as JSON, without a cluster: for questions of the kind 'what if'.",
    )
    parser.add_argument("file", metavar="FILE", help="YAML with links, tenants and jobs; - reads standard input")
    name = parser.parse_args(arguments).file
    try:
        links, tenants, jobs = read_document(_load(name))
        allocation = allocate(links, tenants, jobs)
    except (_FileError, AllocationInputError) as error:
        print(f"fairlead allocate: {name}: {error}", file=sys.stderr)  # noqa: T201
        return EXIT_USAGE
    print(json.dumps(render(allocation), indent=2, allow_nan=False))  # noqa: T201
    if allocation.approximated:
        warning = f"{allocation.approximated} jobs share by approximation: within capacities and guarantees, but not by the rule"
        print(f"fairlead allocate: {name}: {warning}", file=sys.stderr)  # noqa: T201
    return 0


def read_document(document: object) -> tuple[list[AllocationLink], list[AllocationTenant], list[AllocationJob]]:
    """Links, tenants and jobs of a parsed file. Raises AllocationInputError naming the place, e.g. `jobs[3].limit`."""
    top = _Place("", document, "the document").fields({"links", "tenants", "jobs"})
    links = [_link(place) for place in top.items("links", {"name", "capacity", "headroom"})]
    tenants = [_tenant(place) for place in top.items("tenants", {"name", "weight", "guarantee", "limit"})]
    jobs = [_job(place) for place in top.items("jobs", {"name", "tenant", "links", "weight", "guarantee", "limit", "demand"})]
    return links, tenants, jobs


def render(allocation: Allocation) -> dict[str, Any]:
    """The allocation as plain JSON values: rates in bits per second, ratios and indices from 0 to 1, null where nothing is allocated."""
    return {
        "jobs": {name: _number(rate_bps) for name, rate_bps in allocation.jobs.items()},
        "links": {
            name: {
                "allocated": _number(link.allocated_bps),
                "utilisation": _number(link.utilisation),
                "capacity": _number(link.capacity_bps),
                "available": _number(link.available_bps),
                "guaranteeRatio": _number(link.guarantee_ratio),
            }
            for name, link in allocation.links.items()
        },
        "tenants": {
            name: {"allocated": _number(tenant.allocated_bps), "guaranteeRatio": _number(tenant.guarantee_ratio)}
            for name, tenant in allocation.tenants.items()
        },
        "jain": {
            "overall": _index(allocation.jain),
            "links": {name: _index(link.jain) for name, link in allocation.links.items()},
            "tenants": {name: _index(tenant.jain) for name, tenant in allocation.tenants.items()},
        },
        "approximated": allocation.approximated,
    }


def _load(name: str) -> object:
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except OSError as error:
        raise _FileError(f"cannot be read: {error.strerror}; give a YAML file that exists") from None
    except UnicodeDecodeError:
        raise _FileError("is not text; give a YAML file in UTF-8") from None
    try:
        return yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        where = f"line {error.problem_mark.line + 1}, column {error.problem_mark.column + 1}: " if error.problem_mark else ""
        raise _FileError(f"{where}not YAML: {error.problem}; correct the syntax there") from None
    except (yaml.YAMLError, RecursionError, ValueError):
        raise _FileError("not YAML: it holds what no YAML document may; write links, tenants and jobs as lists") from None


class _Place:
    """A value of the document and its place there."""

    def __init__(self, path: str, value: object, title: str = "") -> None:
        self.path = path
        self._value = value
        self._title = title or path

    def fields(self, known: set[str]) -> _Place:
        """This place, checked to be a mapping of known fields."""
        if not isinstance(self._value, Mapping):
            raise self._wrong("is not a mapping", f"write the fields {', '.join(sorted(known))}")
        for key in self._value:
            if key not in known:
                raise AllocationInputError(self._at(key).path, "is not a known field", f"use {', '.join(sorted(known))}")
        return self

    def items(self, key: str, known: set[str]) -> list[_Place]:
        """The entries of a list of mappings."""
        place = self._at(key)
        if not isinstance(place._value, list):
            problem = "is missing" if place._value is None else "is not a list"
            raise place._wrong(problem, f"write a list of {key}, or [] for none")
        return [_Place(f"{key}[{number}]", value).fields(known) for number, value in enumerate(place._value)]

    def text(self, key: str) -> str:
        """A required string."""
        place = self._at(key)
        if not isinstance(place._value, str) or not place._value:
            problem = "is missing" if place._value is None else f"{place._value!r} is not text"
            raise place._wrong(problem, "write a name, in quotes if it looks like a number")
        return place._value

    def texts(self, key: str) -> tuple[str, ...]:
        """A required list of strings."""
        place = self._at(key)
        if not isinstance(place._value, list):
            raise place._wrong("is missing" if place._value is None else "is not a list", "write the names of the links it crosses")
        return tuple(_Place(place.path, {f"[{number}]": value}).text(f"[{number}]") for number, value in enumerate(place._value))

    def weight(self) -> float:
        """The weight, 1 if there is none."""
        place = self._at("weight")
        if place._value is None:
            return 1.0
        if isinstance(place._value, bool) or not isinstance(place._value, int | float):
            raise place._wrong(f"{place._value!r} is not a number", "write a number above zero, e.g. 100")
        return _as_float(place._value)

    def rate(self, key: str, default: object = _REQUIRED) -> float:
        """Bits per second from a number or a quantity such as `500M`."""
        place = self._at(key)
        value = place._value
        if value is None:
            if isinstance(default, float):
                return default
            raise place._wrong("is missing", "write a rate, e.g. 10G")
        if isinstance(value, str):
            return place._rate_of(value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise place._wrong(f"{value!r} is not a rate", "write bits per second as a number or with a suffix, e.g. 500M")
        return _as_float(value)

    def headroom(self, capacity_bps: float) -> float:
        """Bits per second from a ratio below 1 (`0.1`), a percentage (`10%`) or a rate (`500M`, or a number of 1 or more)."""
        place = self._at("headroom")
        if isinstance(place._value, str) and place._value.strip().endswith("%"):
            percent = _plain_number(place._value.strip().removesuffix("%"))
            if percent is None or not 0.0 <= percent < 100.0:
                raise place._wrong(f"{place._value!r} is not a percentage from 0% to below 100%", "write e.g. 10%")
            return capacity_bps * percent / 100.0
        value = self.rate("headroom", 0.0)
        return capacity_bps * value if value < 1.0 else value

    def _at(self, key: str) -> _Place:
        assert isinstance(self._value, Mapping)
        separator = "." if self.path and not str(key).startswith("[") else ""
        return _Place(f"{self.path}{separator}{key}", self._value.get(key))

    def _rate_of(self, text: str) -> float:
        number = _plain_number(text)
        if number is not None:
            return number
        try:
            return float(parse_rate(text.strip()))
        except RateError:
            remedy = "write bits per second with an optional suffix k, M, G or T, e.g. 200M"
            raise self._wrong(f"{text!r} is not a rate", remedy) from None

    def _wrong(self, problem: str, remedy: str) -> AllocationInputError:
        return AllocationInputError(self._title, problem, remedy)


def _link(place: _Place) -> AllocationLink:
    capacity_bps = place.rate("capacity")
    return AllocationLink(place.text("name"), capacity_bps, place.headroom(capacity_bps))


def _tenant(place: _Place) -> AllocationTenant:
    return AllocationTenant(place.text("name"), place.weight(), place.rate("guarantee", 0.0), place.rate("limit", math.inf))


def _job(place: _Place) -> AllocationJob:
    return AllocationJob(
        name=place.text("name"),
        tenant=place.text("tenant"),
        links=place.texts("links"),
        weight=place.weight(),
        guarantee_bps=place.rate("guarantee", 0.0),
        limit_bps=place.rate("limit", math.inf),
        demand_bps=place.rate("demand", math.inf),
    )


def _plain_number(text: str) -> float | None:
    """The value of a number without a suffix, such as `1e9`, which YAML reads as text."""
    try:
        return float(text)
    except ValueError:
        return None


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _number(value: float) -> float | int:
    """Twelve significant digits, without a fraction where there is none."""
    rounded = float(f"{value:.12g}")
    return int(rounded) if rounded.is_integer() else rounded


def _index(value: float | None) -> float | None:
    return None if value is None else _number(value)
