from __future__ import annotations

import dataclasses
import hashlib
import os
from pathlib import Path

import pytest

from fairlead_dev.cluster.artifacts import earlier, programs, store
from fairlead_dev.cluster.artifacts.build import link_into_checkout
from fairlead_dev.cluster.artifacts.images import KEPT_ARCHIVES, MONITORING_IMAGES, Archive, archive_of, digest_of, prune
from fairlead_dev.cluster.artifacts.programs import PROGRAMS
from fairlead_dev.cluster.errors import ClusterError
from fairlead_dev.cluster.layout import Layout
from fairlead_dev.cluster.machine import shell
from fairlead_dev.errors import CommandUsageError

CACHE = Path("/cache/bin")


def by_name(name: str) -> programs.GoProgram:
    return next(program for program in PROGRAMS if program.name == name)


def test_programs_of_one_source_share_a_folder_that_names_the_version() -> None:
    folder = by_name("kubelet").folder(CACHE)
    assert folder == by_name("kube-apiserver").folder(CACHE)
    assert folder.name.startswith("kubernetes-v1.34.4-")


@pytest.mark.parametrize("change", [{"version": "v9.9.9"}, {"link_flags": "-X a=b"}, {"tags": "other"}, {"cgo": True}])
def test_whatever_shapes_a_program_changes_its_place_in_the_cache(change: dict[str, object]) -> None:
    program = by_name("ctr")
    assert dataclasses.replace(program, **change).path(CACHE) != program.path(CACHE)  # type: ignore[arg-type]


def test_a_pinned_modules_checksums_are_part_of_the_place() -> None:
    kubelet = by_name("kubelet")
    assert dataclasses.replace(kubelet, module="etcd").path(CACHE) != kubelet.path(CACHE)


def test_every_pinned_module_has_its_versions_and_checksums_in_the_repository() -> None:
    for program in PROGRAMS:
        if program.module and program.module != "pause":
            module = programs.GO_MODULES / program.module
            assert program.version in (module / "go.mod").read_text()
            assert (module / "go.sum").stat().st_size > 0


def test_an_unknown_program_is_refused_with_the_known_ones() -> None:
    with pytest.raises(CommandUsageError, match=r"no program docker; known are .*kubelet"):
        programs.select(["kubectl", "docker"])


def test_what_only_monitoring_needs_is_not_built_by_the_setup() -> None:
    names = {program.name for program in PROGRAMS}
    assert not names & MONITORING_IMAGES.keys()
    assert [program.name for program in programs.select(list(MONITORING_IMAGES))] == list(MONITORING_IMAGES)


def test_a_selection_keeps_the_order_of_building() -> None:
    assert [program.name for program in programs.select(["helm", "kubectl"])] == ["kubectl", "helm"]
    assert programs.select([]) == list(PROGRAMS)


def test_a_link_into_the_checkout_follows_an_upgrade(tmp_path: Path) -> None:
    paths = Layout(tmp_path / "checkout", tmp_path / "cache", tmp_path / "state", tmp_path / "target")
    for version in ("v1", "v2"):
        program = tmp_path / version / "tool"
        program.parent.mkdir()
        program.write_text(version)
        link_into_checkout(program, paths)
        assert (tmp_path / "checkout/build/bin/tool").read_text() == version


def tree(root: Path) -> Path:
    (root / "code").mkdir(parents=True)
    (root / "code/a.py").write_text("a")
    (root / "lock").write_text("1")
    return root


def test_an_images_digest_changes_with_contents_names_and_permissions(tmp_path: Path) -> None:
    root = tree(tmp_path / "one")
    seen = {digest_of(root, ["code", "lock"])}
    (root / "code/a.py").write_text("b")
    seen.add(digest_of(root, ["code", "lock"]))
    (root / "code/a.py").rename(root / "code/b.py")
    seen.add(digest_of(root, ["code", "lock"]))
    (root / "code/b.py").chmod(0o755)
    seen.add(digest_of(root, ["code", "lock"]))
    seen.add(digest_of(root, ["code", "lock"], salt="other base"))
    assert len(seen) == 5


def test_caches_and_the_place_of_the_checkout_do_not_change_a_digest(tmp_path: Path) -> None:
    one, other = tree(tmp_path / "one"), tree(tmp_path / "other")
    (other / "code/__pycache__").mkdir()
    (other / "code/__pycache__/a.pyc").write_bytes(b"x")
    assert digest_of(one, ["code", "lock"]) == digest_of(other, ["code", "lock"])


def test_a_missing_input_is_named(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"requirements\.lock is missing"):
        digest_of(tmp_path, ["requirements.lock"])


def digest(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()


def test_two_checkouts_have_their_archives_of_an_image_beside_each_other(tmp_path: Path) -> None:
    one, other = (archive_of("localhost/a:dev", "a", digest(content), tmp_path) for content in ("one", "other"))
    assert one.path != other.path
    assert archive_of("localhost/a:dev", "a", digest("one"), tmp_path) == one


def test_the_archives_of_an_image_that_were_used_last_are_kept_and_those_of_others(tmp_path: Path) -> None:
    used = [archive_of("localhost/a:dev", "a", digest(str(number)), tmp_path) for number in range(KEPT_ARCHIVES + 2)]
    others = [
        archive_of("localhost/a-b:dev", "a-b", digest("x"), tmp_path),
        archive_of("localhost/a:1234567890ab", "a-1234567890ab", digest("x"), tmp_path),
    ]
    for at, archive in enumerate([*others, *used]):
        archive.path.touch()
        os.utime(archive.path, (at, at))
    for name in ("a.tar", "a.digest", "base-rootfs.tar"):
        (tmp_path / name).touch()
    prune(used[-1])
    expected = {archive.path.name for archive in (*others, *used[2:])} | {"base-rootfs.tar"}
    assert {path.name for path in tmp_path.iterdir()} == expected


def test_only_images_with_other_contents_are_imported_again(tmp_path: Path) -> None:
    record_file = tmp_path / "record.json"
    store.save_record(record_file, {"localhost/a:1": "x", "localhost/b:1": "y"})
    archives = [Archive(f"localhost/{name}:1", tmp_path, digest) for name, digest in (("a", "x"), ("b", "z"), ("c", "x"))]
    outdated = store.not_in(store.load_record(record_file), archives)
    assert [archive.image for archive in outdated] == ["localhost/b:1", "localhost/c:1"]


def test_a_missing_or_damaged_record_counts_as_empty(tmp_path: Path) -> None:
    assert store.load_record(tmp_path / "none") == {}
    (tmp_path / "half").write_text('{"localhost/a:1": ')
    assert store.load_record(tmp_path / "half") == {}


def test_nodes_share_layers_but_not_databases(tmp_path: Path) -> None:
    source, target = tmp_path / "store", tmp_path / "node"
    (source / "snapshots").mkdir(parents=True)
    (source / "snapshots/file").write_text("layer")
    (source / "meta.db").write_text("database")
    target.mkdir()
    store.copy_store(source, target)
    assert (target / "snapshots/file").stat().st_ino == (source / "snapshots/file").stat().st_ino
    (target / "meta.db").write_text("changed by the node")
    assert (source / "meta.db").read_text() == "database"


def test_a_node_that_has_images_keeps_them(tmp_path: Path) -> None:
    source, target = tmp_path / "store", tmp_path / "node"
    for folder in (source, target):
        folder.mkdir()
    (source / "meta.db").write_text("new")
    (target / "meta.db").write_text("own")
    store.copy_store(source, target)
    assert [path.name for path in target.iterdir()] == ["meta.db"]
    assert (target / "meta.db").read_text() == "own"


def committed(repository: Path, content: str) -> str:
    """A commit of one file, and its name."""
    (repository / "file").write_text(content)
    who = ("-c", "user.name=a", "-c", "user.email=a@b.example", "-c", "commit.gpgsign=false")
    shell.run(["git", "-C", repository, "add", "file"])
    shell.run(["git", "-C", repository, *who, "commit", "--quiet", "-m", content])
    return shell.run(["git", "-C", repository, "rev-parse", "HEAD"]).strip()


def test_an_earlier_commits_images_are_built_of_its_own_files_beside_this_checkouts(tmp_path: Path) -> None:
    paths = Layout(tmp_path / "checkout", tmp_path / "cache", tmp_path / "state", tmp_path / "target")
    shell.run(["git", "init", "--quiet", paths.repository])
    first, _ = committed(paths.repository, "before"), committed(paths.repository, "now")
    for _ in range(2):
        of_first, tag = earlier.layout_of(first[:10], paths)
        assert (of_first.repository / "file").read_text() == "before"
        assert tag == first[:12]
    assert of_first.cargo_target != paths.cargo_target
    assert [path.name for path in (paths.cache / "earlier").iterdir()] == [tag]


def test_a_commit_that_a_shallow_clone_lacks_is_named_with_the_remedy(tmp_path: Path) -> None:
    shell.run(["git", "init", "--quiet", tmp_path])
    with pytest.raises(ClusterError, match=r"no commit 'b900e1c'.*git fetch --unshallow"):
        earlier.layout_of("b900e1c", Layout(tmp_path, tmp_path / "cache", tmp_path / "state", tmp_path / "target"))
