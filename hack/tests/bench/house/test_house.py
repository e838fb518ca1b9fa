"""What must hold for the repository as it is."""

import pytest

from fairlead_dev.bench.house.counts import layer_contracts, pythonpath_uses
from fairlead_dev.bench.house.names import homonyms, shared_names
from fairlead_dev.bench.house.pages import GLOSSARY, broken_links, missing_paths, orphan_pages, unresolved_citations
from fairlead_dev.bench.house.repository import TrackedTree, read_tree
from fairlead_dev.bench.house.rows import FEWEST_CONTRACTS
from fairlead_dev.checkout import CHECKOUT


@pytest.fixture(scope="module")
def tree() -> TrackedTree:
    return read_tree(CHECKOUT)


def test_every_page_is_reached_from_the_index(tree: TrackedTree) -> None:
    assert orphan_pages(tree.texts) == []


def test_every_link_between_pages_leads_somewhere(tree: TrackedTree) -> None:
    assert broken_links(tree.texts, tree.files) == []


def test_every_path_that_a_page_names_exists(tree: TrackedTree) -> None:
    assert missing_paths(tree.texts, tree.files) == []


def test_every_citation_is_in_the_references(tree: TrackedTree) -> None:
    assert unresolved_citations(tree.texts) == []


def test_no_path_of_modules_is_set_by_hand(tree: TrackedTree) -> None:
    assert pythonpath_uses(tree.texts) == []


def test_one_name_has_one_meaning_unless_the_glossary_shares_it(tree: TrackedTree) -> None:
    assert homonyms(tree.texts, shared_names(tree.texts[GLOSSARY])) == {}


def test_contracts_hold_the_layers_of_the_packages(tree: TrackedTree) -> None:
    assert layer_contracts(tree.import_contracts) >= FEWEST_CONTRACTS
