"""Files of an image archive: what a later layer replaces or removes is not in the image."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead_dev.errors import CommandUsageError
from fairlead_dev.sbom.image import read_image

from .archives import write_archive


def files(tmp_path: Path, *layers: dict[str, bytes | None]) -> dict[str, bytes]:
    return dict(read_image(write_archive(tmp_path / "image.tar", layers), lambda path: path.startswith("a/")).files)


def test_only_what_is_wanted_is_read_and_the_last_layer_wins(tmp_path: Path) -> None:
    assert files(tmp_path, {"a/x": b"1", "./a/y": b"2", "b": b"3"}, {"a/x": b"4"}) == {"a/x": b"4", "a/y": b"2"}


def test_a_whiteout_removes_a_file_or_a_folder_with_all_in_it(tmp_path: Path) -> None:
    assert files(tmp_path, {"a/x": b"1", "a/d/y": b"2", "a/dd": b"3"}, {"a/.wh.x": b"", "a/.wh.d": b""}) == {"a/dd": b"3"}


def test_an_opaque_folder_hides_the_layers_below_it_alone(tmp_path: Path) -> None:
    assert files(tmp_path, {"a/d/x": b"1", "a/y": b"2"}, {"a/d/.wh..wh..opq": b"", "a/d/z": b"3"}) == {"a/y": b"2", "a/d/z": b"3"}


def test_a_link_in_the_place_of_a_file_hides_it(tmp_path: Path) -> None:
    assert files(tmp_path, {"a/x": b"1"}, {"a/x": None}) == {}


def test_name_and_configuration_are_the_manifests(tmp_path: Path) -> None:
    image = read_image(write_archive(tmp_path / "image.tar", [{}]), lambda path: True)
    assert (image.name, image.configuration) == ("localhost/fairlead-operator:dev", "c0ffee")


@pytest.mark.parametrize("content", [b"", b"no archive"])
def test_what_is_no_archive_is_named_with_the_remedy(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "image.tar").write_bytes(content)
    with pytest.raises(CommandUsageError, match="docker save"):
        read_image(tmp_path / "image.tar", lambda path: True)


def test_a_missing_layer_is_an_error_and_no_smaller_image(tmp_path: Path) -> None:
    archive = write_archive(tmp_path / "image.tar", [{"a/x": b"1"}])
    archive.write_bytes(archive.read_bytes().replace(b"0.tar", b"7.tar", 1))
    with pytest.raises(CommandUsageError, match=r"7\.tar|0\.tar"):
        read_image(archive, lambda path: True)
