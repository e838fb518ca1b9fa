"""`fairlead allocate`: what it reads, prints and refuses."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

import fairlead.__main__
from fairlead.commands import allocate
from fairlead.core.allocation import allocate as fair_shares

DOCUMENT = """
links:
  - {name: dtn-a-out, capacity: 10G, headroom: 10%}
  - {name: wan, capacity: 2e9}
  - {name: dtn-b-in, capacity: 1000000000, headroom: 100M}
tenants:
  - {name: astro, weight: 2}
  - {name: bio, guarantee: 100M, limit: 800M}
jobs:
  - {name: sky, tenant: astro, links: [dtn-a-out, wan]}
  - {name: radio, tenant: astro, links: [dtn-a-out, wan, dtn-b-in], weight: 3}
  - {name: genome, tenant: bio, links: [wan, dtn-b-in], limit: 0.5G}
  - {name: cells, tenant: bio, links: [wan], demand: 100M}
"""


def run(tmp_path: Path, text: str | bytes) -> int:
    file = tmp_path / "shares.yaml"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return allocate.main([str(file)])


def test_prints_rates_links_tenants_and_fairness_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, DOCUMENT) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["jobs"] == {"cells": 100_000_000, "genome": 300_000_000, "radio": 600_000_000, "sky": 1_000_000_000}
    assert printed["links"]["dtn-b-in"] == {
        "allocated": 900_000_000,
        "utilisation": 0.9,
        "capacity": 1_000_000_000,
        "available": 900_000_000,
        "guaranteeRatio": 1,
    }
    assert printed["tenants"]["bio"] == {"allocated": 400_000_000, "guaranteeRatio": 1}
    assert printed["jain"]["links"]["dtn-b-in"] == 1
    assert printed["jain"]["tenants"] == {"astro": 0.692307692308, "bio": 0.8}


def test_says_when_shares_are_only_approximated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(allocate, "allocate", lambda *network: replace(fair_shares(*network), approximated=3))
    assert run(tmp_path, DOCUMENT) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["approximated"] == 3
    assert "3 jobs share by approximation" in printed.err


def test_reads_standard_input_as_a_subcommand(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("{links: [], tenants: [], jobs: []}"))
    assert fairlead.__main__.main(["allocate", "-"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "jobs": {},
        "links": {},
        "tenants": {},
        "jain": {"overall": None, "links": {}, "tenants": {}},
        "approximated": 0,
    }


@pytest.mark.parametrize(
    ("headroom", "available"),
    [("0", 1e9), ("0.25", 0.75e9), ("'0.25'", 0.75e9), ("25%", 0.75e9), ("0%", 1e9), ("250M", 0.75e9), ("250000000", 0.75e9), ("~", 1e9)],
)
def test_headroom_is_a_ratio_a_percentage_or_a_rate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], headroom: str, available: float
) -> None:
    assert run(tmp_path, f"{{links: [{{name: wan, capacity: 1G, headroom: {headroom}}}], tenants: [], jobs: []}}") == 0
    assert json.loads(capsys.readouterr().out)["links"]["wan"]["available"] == available


LINK, TENANT, JOB = "{name: wan, capacity: 1G}", "{name: a}", "{name: x, tenant: a, links: [wan]}"


def document(link: str = LINK, tenant: str = TENANT, job: str = JOB) -> str:
    return f"links: [{link}]\ntenants: [{tenant}]\njobs: [{job}]\n"


def job(fields: str) -> str:
    return document(job=f"{{name: x, tenant: a, links: [wan], {fields}}}")


BAD = {
    "not yaml": ("links: [", "line 1, column 9: not YAML"),
    "a tag": ("!!python/object:os.system {}", "not YAML"),
    "not text": (b"\xff\xfe\x00", "not text"),
    "a control character": ("a: \x07", "not YAML"),
    "an empty file": ("", "the document: is not a mapping; write the fields jobs, links, tenants"),
    "a missing list": ("{links: [], tenants: []}", "jobs: is missing; write a list"),
    "a list that is none": ("{links: {}, tenants: [], jobs: []}", "links: is not a list"),
    "an entry that is no mapping": (document(tenant="a"), "tenants[0]: is not a mapping"),
    "an unknown field": (
        document(link="{name: wan, capacity: 1G, head: 1}"),
        "links[0].head: is not a known field; use capacity, headroom",
    ),
    "a missing name": (document(link="{capacity: 1G}"), "links[0].name: is missing"),
    "a name that is a number": (document(tenant="{name: 7}"), "tenants[0].name: 7 is not text"),
    "a missing capacity": (document(link="{name: wan}"), "links[0].capacity: is missing; write a rate"),
    "zero capacity": (document(link="{name: wan, capacity: 0}"), "links[0].capacity: 0.0 is not a number above zero"),
    "infinite capacity": (document(link="{name: wan, capacity: .inf}"), "links[0].capacity: inf is not a number above zero"),
    "an impossible capacity": (document(link="{name: wan, capacity: 1" + "0" * 400 + "}"), "links[0].capacity: inf is not"),
    "a unit that does not parse": (
        document(link="{name: wan, capacity: 1Gi}"),
        "links[0].capacity: '1Gi' is not a rate; write bits per second",
    ),
    "a rate that is a list": (document(link="{name: wan, capacity: [1]}"), "links[0].capacity: [1] is not a rate"),
    "headroom of everything": (document(link="{name: wan, capacity: 1G, headroom: 1G}"), "links[0].headroom: leaves nothing"),
    "headroom above 100 %": (document(link="{name: wan, capacity: 1G, headroom: 100%}"), "links[0].headroom: '100%' is not a percentage"),
    "negative headroom": (document(link="{name: wan, capacity: 1G, headroom: -0.1}"), "links[0].headroom: -100000000.0 is not a number"),
    "links of one name": (document(link=f"{LINK}, {LINK}"), "links[1].name: 'wan' is already links[0]"),
    "tenants of one name": (document(tenant=f"{TENANT}, {TENANT}"), "tenants[1].name: 'a' is already tenants[0]"),
    "jobs of one name": (document(job=f"{JOB}, {JOB}"), "jobs[1].name: 'x' is already jobs[0]"),
    "zero weight": (document(tenant="{name: a, weight: 0}"), "tenants[0].weight: 0.0 is not a number above zero"),
    "a weight that is text": (document(tenant="{name: a, weight: heavy}"), "tenants[0].weight: 'heavy' is not a number"),
    "a weight that is true": (job("weight: true"), "jobs[0].weight: True is not a number"),
    "a weight that is not a number": (job("weight: .nan"), "jobs[0].weight: nan is not a number above zero"),
    "an extreme weight": (job("weight: 1.0e+30"), "jobs[0].weight: 1e+30 is out of range"),
    "a guarantee above the limit": (job("guarantee: 2M, limit: 1M"), "jobs[0].guarantee: is above the limit; lower the guarantee or raise"),
    "a tenant's guarantee above its limit": (
        document(tenant="{name: a, guarantee: 2M, limit: 1M}"),
        "tenants[0].guarantee: is above the limit",
    ),
    "a negative guarantee": (job("guarantee: -1"), "jobs[0].guarantee: -1.0 is not a number of zero or more"),
    "a limit of zero": (job("limit: 0"), "jobs[0].limit: 0.0 is not above zero"),
    "a demand that is not a number": (job("demand: .nan"), "jobs[0].demand: nan is not a rate"),
    "a negative demand": (job("demand: -5"), "jobs[0].demand: -5.0 is not a rate"),
    "an unknown tenant": (document(job="{name: x, tenant: b, links: [wan]}"), "jobs[0].tenant: no tenant is named 'b'; add it to tenants"),
    "an unknown link": (
        document(job="{name: x, tenant: a, links: [wan, lan]}"),
        "jobs[0].links[1]: no link is named 'lan'; add it to links",
    ),
    "a link named twice": (document(job="{name: x, tenant: a, links: [wan, wan]}"), "jobs[0].links[1]: 'wan' is named twice"),
    "no links": (document(job="{name: x, tenant: a, links: []}"), "jobs[0].links: is empty; name at least one link"),
    "links that are no list": (document(job="{name: x, tenant: a, links: wan}"), "jobs[0].links: is not a list"),
    "a link name that is a number": (document(job="{name: x, tenant: a, links: [1]}"), "jobs[0].links[0]: 1 is not text"),
}


@pytest.mark.parametrize(("text", "message"), BAD.values(), ids=BAD.keys())
def test_bad_input_is_refused_in_one_line_that_names_the_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | bytes, message: str
) -> None:
    assert run(tmp_path, text) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert error.count("\n") == 1
    assert error.startswith(f"fairlead allocate: {tmp_path / 'shares.yaml'}: ")
    assert message in error
    assert "; " in error


@pytest.mark.parametrize("name", ["missing.yaml", "."])
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert allocate.main([str(tmp_path / name)]) == 2
    assert "cannot be read" in capsys.readouterr().err
