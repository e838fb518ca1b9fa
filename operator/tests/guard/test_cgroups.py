"""Where the control groups of pods are."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.guard.cgroups import NetworkClasses, PodGroups, classes_root, unified_root

UID = "98b2a419-b64a-4316-952f-c12db992268f"
OTHER = "62d99370-e51f-44b2-8abc-643dc71bbea1"
SLICE = UID.replace("-", "_")


@pytest.mark.parametrize(
    "path",
    [
        f"kubepods/pod{UID}",
        f"kubepods/burstable/pod{UID}",
        f"node-7/kubepods/besteffort/pod{UID}",
        f"kubepods.slice/kubepods-pod{SLICE}.slice",
        f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{SLICE}.slice",
        f"kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod{SLICE}.slice",
    ],
    ids=["guaranteed", "burstable", "a root of the node's own", "systemd", "systemd, burstable", "below the kubelet's slice"],
)
def test_a_pods_group_is_found_by_its_uid(tmp_path: Path, path: str) -> None:
    (tmp_path / path / "container").mkdir(parents=True)
    assert PodGroups(tmp_path).find(UID) == tmp_path / path


def test_the_first_pod_of_a_class_of_service_is_found_without_another_search(tmp_path: Path) -> None:
    burstable = tmp_path / "kubepods" / "burstable"
    burstable.mkdir(parents=True)
    groups = PodGroups(tmp_path, clock=lambda: 0.0)
    assert groups.find(UID) is None
    (burstable / f"pod{UID}").mkdir()
    assert groups.find(UID) == burstable / f"pod{UID}"


@pytest.mark.parametrize("uid", ["", "..", "../../etc", "*", UID + "/..", UID.upper()])
def test_what_is_no_uid_has_no_group(tmp_path: Path, uid: str) -> None:
    (tmp_path / "kubepods" / f"pod{UID}").mkdir(parents=True)
    assert PodGroups(tmp_path).find(uid) is None


def test_version_2_is_used_alone_and_beside_version_1(tmp_path: Path) -> None:
    assert unified_root(tmp_path) is None
    (tmp_path / "unified").mkdir()
    (tmp_path / "unified" / "cgroup.controllers").touch()
    assert unified_root(tmp_path) == tmp_path / "unified"
    (tmp_path / "cgroup.controllers").touch()
    assert unified_root(tmp_path) == tmp_path


def class_group(folder: Path, number: int = 0) -> Path:
    folder.mkdir(parents=True)
    (folder / "net_cls.classid").write_text(str(number))
    return folder


def class_of(group: Path) -> int:
    return int((group / "net_cls.classid").read_text())


def test_network_classes_are_found_beside_their_sister_controller(tmp_path: Path) -> None:
    assert classes_root(tmp_path) is None
    assert classes_root(class_group(tmp_path / "net_cls,net_prio").parent) == tmp_path / "net_cls,net_prio"


def test_each_pod_has_a_class_of_its_own_with_all_its_containers(tmp_path: Path) -> None:
    pods = [class_group(tmp_path / "kubepods" / f"pod{uid}") for uid in (UID, OTHER)]
    container = class_group(pods[0] / "container")
    classes = NetworkClasses(tmp_path)
    numbers = [classes.mark(UID), classes.mark(OTHER)]
    assert len(set(numbers)) == 2
    assert [class_of(pods[0]), class_of(container), class_of(pods[1])] == [numbers[0], numbers[0], numbers[1]]
    # A restarted guard keeps them, so that the rules of before still apply.
    again = NetworkClasses(tmp_path)
    assert [again.mark(OTHER), again.mark(UID)] == [numbers[1], numbers[0]]


def test_a_pod_without_a_group_has_no_class(tmp_path: Path) -> None:
    assert NetworkClasses(tmp_path).mark(UID) is None


def test_the_class_of_a_pod_that_has_gone_is_given_to_another(tmp_path: Path) -> None:
    for uid in (UID, OTHER):
        class_group(tmp_path / "kubepods" / f"pod{uid}")
    classes = NetworkClasses(tmp_path)
    number = classes.mark(UID)
    classes.keep({OTHER})
    assert classes.mark(OTHER) == number
