from pathlib import PurePosixPath

import pytest

from fairlead_dev.bench.house.names import homonyms, python_types, rust_types, shared_names

OPERATOR = PurePosixPath("operator/fairlead/core/a.py")
ADVISOR = PurePosixPath("images/advisor/fairlead_advisor/a.py")
MOVER = PurePosixPath("images/mover/src/a.rs")
WAN = PurePosixPath("hack/wan/src/a.rs")


def test_public_classes_of_the_top_level_are_types() -> None:
    assert python_types("class A: ...\nclass _B: ...\nclass C:\n    class D: ...\nE = int\n") == ["A", "C"]


@pytest.mark.parametrize(
    ("source", "types"),
    [
        ("pub struct A;\npub(crate) enum B {}\nstruct C;\n", ["A", "B"]),
        ("pub trait A {}\n    pub type B = u8;\npub fn c() {}\n", ["A", "B"]),
        ("pub struct A;\n#[cfg(test)]\nmod tests {\n    pub struct B;\n}\n", ["A"]),
    ],
    ids=["visible beyond the file", "traits and aliases", "without those of tests"],
)
def test_types_that_a_rust_file_makes_visible(source: str, types: list[str]) -> None:
    assert rust_types(source) == types


def test_a_name_in_two_packages_of_one_language_is_a_homonym() -> None:
    found = homonyms({OPERATOR: "class A: ...\nclass B: ...\n", ADVISOR: "class A: ...\n"}, frozenset())
    assert found == {("A", ".py"): [OPERATOR, ADVISOR]}


def test_a_name_in_two_crates_is_a_homonym_and_one_in_two_languages_is_not() -> None:
    found = homonyms({OPERATOR: "class A: ...\n", MOVER: "pub struct A;\npub struct B;\n", WAN: "pub struct B;\n"}, frozenset())
    assert found == {("B", ".rs"): [MOVER, WAN]}


def test_shared_names_and_tests_are_no_homonyms() -> None:
    texts = {OPERATOR: "class A: ...\n", ADVISOR: "class A: ...\n", PurePosixPath("operator/fairlead/tests/a.py"): "class B: ...\n"}
    assert homonyms(texts, frozenset({"A"})) == {}


def test_the_glossary_lists_shared_names_in_one_section_alone() -> None:
    page = "| `A` | x |\n\n## One name in several places\n| name | what |\n|---|---|\n| `B` | y |\n\n## More\n| `C` | z |\n"
    assert shared_names(page) == {"B"}
