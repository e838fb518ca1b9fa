from pathlib import PurePosixPath

import pytest

from fairlead_dev.bench.house.pages import (
    INDEX,
    REFERENCES,
    anchors,
    broken_links,
    links,
    missing_paths,
    orphan_pages,
    unresolved_citations,
)

PAGE = PurePosixPath("docs/how-to/a.md")
CODE = PurePosixPath("operator/fairlead/a.py")
LISTED = {REFERENCES: "- **Huang 2018.** A thesis.\n| RFC 9438 | CUBIC | growth |\n"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[b](b.md)", [("docs/how-to/b.md", "")]),
        ("[a long\nname](../b.md#part)", [("docs/b.md", "part")]),
        ("[here](#part)", [("docs/how-to/a.md", "part")]),
        ("[away](https://example.org/a.md)", []),
        ("`[b](b.md)`", []),
        ("```\n[b](b.md)\n```\n", []),
    ],
    ids=["beside it", "over two lines, above it", "in the page", "another site", "in code", "in a block of code"],
)
def test_links_are_paths_from_the_root(text: str, found: list[tuple[str, str]]) -> None:
    assert links(PAGE, text) == [(PurePosixPath(path), anchor) for path, anchor in found]


def test_a_page_is_an_orphan_unless_links_lead_to_it_from_the_index() -> None:
    other = PurePosixPath("docs/b.md")
    front = PurePosixPath("README.md")
    assert orphan_pages({INDEX: "[a](how-to/a.md)", PAGE: "", other: "[a](how-to/a.md)", front: "[b](docs/b.md)"}) == [other]
    assert orphan_pages({INDEX: "[a](how-to/a.md)", PAGE: "[b](../b.md)", other: ""}) == []


def test_headings_become_anchors_as_on_github() -> None:
    assert anchors("# What `a` *is*, and why\n## [The loop](x.md): 2 parts\n```\n# no heading\n```\n") == {
        "what-a-is-and-why",
        "the-loop-2-parts",
    }


def test_links_to_missing_files_and_headings_are_broken() -> None:
    texts = {INDEX: "# Top\n[a](how-to/a.md#one) [b](b.md) [c](how-to/a.md#two) [top](#top)", PAGE: "# One\n"}
    assert broken_links(texts, {INDEX, PAGE}) == ["docs/index.md -> docs/b.md", "docs/index.md -> docs/how-to/a.md#two"]


def test_a_path_that_a_page_names_and_nobody_has_is_missing() -> None:
    text = "`operator/fairlead/a.py` `operator/fairlead/b.py` `hack/NAME/` `crds/*.yaml` `core/c.py`\n```\n`docs/d.md`\n```\n"
    assert missing_paths({PAGE: text}, {CODE}) == ["docs/how-to/a.md -> operator/fairlead/b.py"]


@pytest.mark.parametrize(
    "text",
    ["as in [Huang 2018, eq. 4.8]", "[Huang 2018,\nsection 6.2.2]", "RFC 9438, section 4.2", "a list [1, 2018]", "(2018)", "see how-to.md"],
)
def test_a_listed_citation_is_resolved(text: str) -> None:
    assert unresolved_citations({**LISTED, CODE: f'"""{text}"""\n'}) == []


@pytest.mark.parametrize(
    ("text", "citation"),
    [
        ("[Hacker 2002, eq. 3]", "Hacker 2002"),
        ("RFC 6817, section 2.4.2", "RFC 6817"),
        ("ITU-T I.371", "ITU-T I.371"),
        ("(Guo et al. 2017)", "Guo et al"),
        ("(Huang 2018)", "(Huang 2018"),
        ("(Arifuzzaman and Arslan, SC 2021)", "(Arifuzzaman and Arslan, SC 2021"),
        ("the rule of ops.md 2.6", "ops.md"),
    ],
)
def test_a_citation_that_the_references_do_not_list_is_unresolved(text: str, citation: str) -> None:
    assert unresolved_citations({**LISTED, CODE: f"# one\n# {text}\n"}) == [f"{CODE}:2: {citation}"]
