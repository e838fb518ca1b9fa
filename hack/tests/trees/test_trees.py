"""Trees: the plan is deterministic, what is written is what was planned, and every kind of difference is found."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from fairlead_dev.trees.__main__ import main
from fairlead_dev.trees.listing import LIST_SCRIPT, Listing, ListingError, compare, parse_listing, totals
from fairlead_dev.trees.plan import ODD_NAMES, PlannedTree, odd_tree, plain_tree, survey_tree
from fairlead_dev.trees.write import write_tree


def listing_output(root: Path) -> bytes:
    return subprocess.run(["sh", "-c", LIST_SCRIPT, "sh", str(root)], check=True, capture_output=True).stdout


def listing_of(root: Path) -> Listing:
    return parse_listing(listing_output(root))


@pytest.mark.parametrize(("bytes_total", "files"), [(5_000_000, 1), (5_000_000, 7), (3, 3)])
def test_plain_tree_has_exactly_the_bytes_and_files_asked_for(bytes_total: int, files: int) -> None:
    tree = plain_tree(bytes_total, files)
    assert (tree.bytes_total, len(tree.files)) == (bytes_total, files)


def test_survey_tree_has_exactly_the_bytes_and_files_asked_for() -> None:
    tree = survey_tree(600_000_000, 2_400)
    assert (tree.bytes_total, len(tree.files)) == (600_000_000, 2_400)


def test_survey_tree_spans_bytes_to_tens_of_megabytes() -> None:
    sizes = [file.size_bytes for file in survey_tree(600_000_000, 2_400).files]
    assert min(sizes) == 0
    assert max(sizes) > 20_000_000
    assert sum(size < 1_000 for size in sizes) > 500


@pytest.mark.parametrize(("bytes_total", "files"), [(600_000_000, 20), (1_000, 2_400)])
def test_survey_tree_refuses_what_cannot_be(bytes_total: int, files: int) -> None:
    with pytest.raises(ValueError, match="too few"):
        survey_tree(bytes_total, files)


@pytest.mark.parametrize("plan", [lambda: odd_tree(1000), lambda: survey_tree(50_000_000, 400)])
def test_the_same_arguments_plan_the_same_tree(plan: Callable[[], PlannedTree]) -> None:
    assert plan() == plan()


@pytest.mark.parametrize("tree", [odd_tree(), survey_tree(50_000_000, 400), plain_tree(10, 2)], ids=["odd", "survey", "plain"])
def test_no_name_is_planned_twice_and_every_parent_comes_first(tree: PlannedTree) -> None:
    known = {b""}
    for directory in tree.directories:
        assert directory.path.rpartition(b"/")[0] in known
        known.add(directory.path)
    others = [*(file.path for file in tree.files), *(link.path for link in tree.symlinks)]
    assert len([*known, *others]) == len({*known, *others})
    assert all(path.rpartition(b"/")[0] in known for path in others)


def test_a_written_tree_lists_with_every_planned_property(tmp_path: Path) -> None:
    tree = odd_tree(100_000)
    write_tree(tree, tmp_path / "tree")
    listing = listing_of(tmp_path / "tree")
    assert totals(listing) == (len(tree.files), tree.bytes_total)
    assert len(listing) == len(tree.files) + len(tree.directories) + len(tree.symlinks)
    for entry in tree.directories_and_files:
        seconds, nanoseconds = divmod(entry.mtime_ns, 1_000_000_000)
        assert listing[entry.path].mode == f"{entry.mode:o}"
        assert listing[entry.path].mtime == f"{seconds}.{nanoseconds:09d}0"
    for link in tree.symlinks:
        assert listing[link.path].target == link.target
    assert {b"odd/" + name for name in ODD_NAMES} <= listing.keys()


def test_two_trees_written_from_one_plan_compare_equal(tmp_path: Path) -> None:
    tree = odd_tree(100_000)
    for name in ("one", "two"):
        write_tree(tree, tmp_path / name)
    assert compare(listing_of(tmp_path / "one"), listing_of(tmp_path / "two")) == []


def _flip_a_bit(root: Path) -> None:
    path = root / "data" / "part-00001.bin"
    kept = path.stat()
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(kept.st_mtime_ns, kept.st_mtime_ns))


def _replace_file_by_directory(root: Path) -> None:
    (root / "data" / "part-00001.bin").unlink()
    (root / "data" / "part-00001.bin").mkdir()


@pytest.mark.parametrize(
    ("change", "aspect"),
    [
        (_flip_a_bit, "sha256"),
        (lambda root: (root / "data" / "part-00001.bin").unlink(), "missing"),
        (lambda root: (root / "data" / "more").write_bytes(b""), "unexpected"),
        (lambda root: (root / "data" / "part-00001.bin").chmod(0o600), "mode"),
        (lambda root: os.utime(root / "data" / "part-00001.bin", ns=(1, 1)), "modification time"),
        (lambda root: os.utime(root / "data", ns=(1, 1)), "modification time"),
        (_replace_file_by_directory, "kind"),
    ],
    ids=["bit", "missing", "unexpected", "mode", "file time", "directory time", "kind"],
)
def test_every_kind_of_difference_is_found(tmp_path: Path, change: Callable[[Path], object], aspect: str) -> None:
    for name in ("one", "two"):
        write_tree(plain_tree(10_000, 3), tmp_path / name)
    change(tmp_path / "two")
    found = compare(listing_of(tmp_path / "one"), listing_of(tmp_path / "two"))
    assert aspect in {difference.aspect for difference in found}


def test_a_changed_link_target_is_found(tmp_path: Path) -> None:
    for name, target in (("one", "a"), ("two", "b")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "link").symlink_to(target)
    assert [d.aspect for d in compare(listing_of(tmp_path / "one"), listing_of(tmp_path / "two"))] == ["target"]


def test_a_link_whose_target_reads_like_a_heading_is_listed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("CHECKSUMS")
    assert listing_of(tmp_path)[b"link"].target == b"CHECKSUMS"


def test_an_empty_directory_lists_as_nothing(tmp_path: Path) -> None:
    assert listing_of(tmp_path) == {}


@pytest.mark.parametrize("length", [0, 1, 40, -1, -5])
def test_a_listing_that_was_cut_short_is_refused(tmp_path: Path, length: int) -> None:
    write_tree(plain_tree(100, 2), tmp_path / "tree")
    with pytest.raises(ListingError):
        parse_listing(listing_output(tmp_path / "tree")[:length])


def test_write_tree_refuses_a_folder_that_holds_something(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("mine")
    with pytest.raises(FileExistsError, match="not empty"):
        write_tree(plain_tree(10, 1), tmp_path)
    assert (tmp_path / "kept").read_text() == "mine"


@pytest.mark.parametrize(
    "arguments", [["plain", "--bytes", "1000", "--files", "3"], ["odd"], ["survey", "--bytes", "50000000", "--files", "400"]]
)
def test_the_command_writes_each_shape(tmp_path: Path, arguments: list[str]) -> None:
    assert main([*arguments, str(tmp_path / "tree")]) == 0
    assert totals(listing_of(tmp_path / "tree"))[0] > 0


def test_the_command_says_why_it_cannot_write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["survey", "--files", "3", str(tmp_path / "tree")]) == 1
    assert "too few" in capsys.readouterr().err
    assert not (tmp_path / "tree").exists()
