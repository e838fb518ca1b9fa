from fairlead_dev.site.contents import INDEX, heading, linked_files, navigation

INDEX_TEXT = """# Documentation
Every page.

## How-to
For users:
- [Share](how-to/share.md): among
  jobs
- [Tune](how-to/tune/README.md), [a list](../hack/list.yaml)

For developers:
- [`make`](../CONTRIBUTING.md)

## Reference
- [Job](reference/job.md)
"""
TEXTS = {
    "README.md": "# Fairlead\n",
    "CONTRIBUTING.md": "# Contributing\n",
    INDEX: INDEX_TEXT,
    "docs/how-to/share.md": "# Share\n[all](../index.md), [rings](tune/rings.md)\n",
    "docs/how-to/tune/README.md": "# Tune\n| page |\n|---|\n| [the mtu](mtu.md#why) |\n",
    "docs/how-to/tune/mtu.md": "# MTU of `data0`\n[rings](rings.md)\n",
    "docs/how-to/tune/rings.md": "# Rings\n",
    "docs/reference/job.md": "# Job\n",
}


def test_the_navigation_follows_the_headings_of_the_index() -> None:
    assert navigation(TEXTS) == [
        {"Fairlead": [{"Overview": "README.md"}, {"All pages": INDEX}]},
        {
            "How-to": [
                {"For users": [
                    {"Share": [{"Overview": "docs/how-to/share.md"}, {"Rings": "docs/how-to/tune/rings.md"}]},
                    {"Tune": [{"Overview": "docs/how-to/tune/README.md"}, {"MTU of data0": "docs/how-to/tune/mtu.md"}]},
                ]},
                {"For developers": [{"make": "CONTRIBUTING.md"}]},
            ]
        },
        {"Reference": [{"Job": "docs/reference/job.md"}]},
    ]  # fmt: skip


def test_a_page_that_nothing_links_to_is_missing_so_that_the_strict_build_fails() -> None:
    assert navigation({**TEXTS, "docs/alone.md": "# Alone\n"}) == navigation(TEXTS)


def test_links_and_pictures_are_paths_from_the_root_and_code_has_none() -> None:
    text = "[a](../b.md#c) ![d](e.svg) `[f](g.md)` [h](https://example.org/) [i](#j)\n\n```\n[k](l.md)\n```\n"
    assert linked_files("docs/how-to/page.md", text) == ["docs/b.md", "docs/how-to/e.svg"]


def test_the_heading_of_a_page_is_plain_text() -> None:
    assert heading("<!-- generated -->\n# `fairlead explain` *now*\n## Flags\n") == "fairlead explain now"
