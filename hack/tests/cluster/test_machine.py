"""Processes, control groups, settings, networks and progress: what can be known without changing the machine."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fairlead_dev.cluster import layout
from fairlead_dev.cluster.machine import network, process, settings
from fairlead_dev.cluster.machine.cgroups import NodeGroups, parse_hierarchies
from fairlead_dev.cluster.machine.process import Identity
from fairlead_dev.cluster.machine.progress import BuildProgress, duration, finished_line, running_line
from fairlead_dev.cluster.machine.settings import MachineSettings, wanted_changes, wanted_restores

STAT_TAIL = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 98765 20 21"


@pytest.mark.parametrize("command", ["bash", "a b", "x) R 1 (y"])
def test_the_start_time_is_found_behind_any_command_name(command: str) -> None:
    assert process.parse_start_ticks(f"42 ({command}) {STAT_TAIL}") == 98765


def test_this_process_is_alive_and_identified() -> None:
    identity = process.identify(os.getpid())
    assert identity is not None
    assert process.is_alive(identity)


def test_another_process_with_the_same_id_is_not_the_recorded_one() -> None:
    identity = process.identify(os.getpid())
    assert identity is not None
    reused = Identity(identity.pid, identity.start_ticks - 1, identity.boot_id)
    assert not process.is_alive(reused)
    assert not process.kill(reused)


def test_a_record_from_before_a_reboot_matches_nothing() -> None:
    identity = process.identify(os.getpid())
    assert identity is not None
    assert not process.is_alive(Identity(identity.pid, identity.start_ticks, "another-boot"))


def test_killing_ends_the_recorded_process_only_once() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    identity = process.identify(child.pid)
    assert identity is not None
    assert process.kill(identity)
    assert child.wait(timeout=120) == -9
    assert not process.is_alive(identity)
    assert not process.kill(identity)


def test_an_identity_survives_its_record() -> None:
    identity = Identity(1, 2, "b")
    assert Identity.from_json(identity.to_json()) == identity


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 1}', '{"pid": "x", "start_ticks": 1, "boot_id": "b"}'])
def test_a_damaged_record_names_no_process(text: str) -> None:
    assert Identity.from_json(text) is None


def test_only_the_exact_variable_is_the_mark() -> None:
    assert process.mark_of(b"A=1\0FAIRLEAD_CLUSTER_STATE=/state\0B=2\0") == "/state"
    assert process.mark_of(b"XFAIRLEAD_CLUSTER_STATE=/state\0FAIRLEAD_STATE=/x\0") is None


def test_marked_processes_are_found_with_their_state() -> None:
    environment = {**os.environ, process.MARK: "/state/of/this/test"}
    child = subprocess.Popen(
        [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"], env=environment, stdout=subprocess.PIPE
    )
    try:
        assert child.stdout is not None
        child.stdout.readline()
        found = {identity.pid: state for identity, state in process.marked()}
        assert found.get(child.pid) == "/state/of/this/test"
        assert os.getpid() not in found
    finally:
        child.kill()
        child.communicate()


MOUNTINFO_HYBRID = """\
30 23 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
31 30 0:27 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu
32 30 0:28 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd
33 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
34 23 0:30 / /elsewhere/cpu rw - cgroup cgroup rw,cpu
"""


def test_control_group_hierarchies_of_a_hybrid_machine() -> None:
    version_1, version_2 = parse_hierarchies(MOUNTINFO_HYBRID)
    assert [str(path) for path in version_1] == ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/systemd"]
    assert [str(path) for path in version_2] == ["/sys/fs/cgroup/unified"]


def test_daemons_join_one_group_in_every_version_1_hierarchy() -> None:
    groups = NodeGroups("fairlead-x", MOUNTINFO_HYBRID).daemon_groups
    assert [str(path) for path in groups] == ["/sys/fs/cgroup/cpu/fairlead-x/sys", "/sys/fs/cgroup/systemd/fairlead-x/sys"]


def hierarchy_for(folder: Path, kind: str) -> str:
    """A hierarchy in a folder, as it would be mounted."""
    return f"31 30 0:27 / /sys/fs/cgroup/../../..{folder} rw,relatime shared:9 - {kind} {kind} rw"


@pytest.mark.parametrize(
    ("kind", "setting", "before", "wanted"), [("cgroup", "cpu.shares", "1024", "4096"), ("cgroup2", "cpu.weight", "100", "157")]
)
def test_a_node_and_its_daemons_have_the_weight_of_several_processes(
    tmp_path: Path, kind: str, setting: str, before: str, wanted: str
) -> None:
    groups = (tmp_path / "fairlead-x", tmp_path / "fairlead-x" / "sys")
    for group in (tmp_path, *groups):
        group.mkdir(exist_ok=True)
        (group / setting).write_text(before)
        (group / "cgroup.controllers").write_text("cpu")
    NodeGroups("fairlead-x", hierarchy_for(tmp_path, kind)).create()
    assert [(group / setting).read_text() for group in groups] == [wanted, wanted]
    assert (tmp_path / setting).read_text() == before


def test_settings_are_raised_but_never_lowered() -> None:
    current = {"fs.inotify.max_user_instances": "128", "fs.inotify.max_user_watches": "9999999"}
    assert wanted_changes(current, "") == {"fs.inotify.max_user_instances": "8192"}


def test_congestion_controls_are_allowed_if_the_kernel_offers_them() -> None:
    name = settings.ALLOWED_CONGESTION_CONTROLS
    assert wanted_changes({name: "reno bbr"}, "reno bbr cubic") == {name: "reno bbr cubic"}
    assert wanted_changes({name: "reno bbr"}, "reno bbr") == {}


def test_only_settings_that_still_have_the_clusters_value_are_restored() -> None:
    record = {"a": {"before": "1", "during": "2"}, "b": {"before": "1", "during": "2"}, "c": {"before": "3", "during": "3"}}
    assert wanted_restores(record, {"a": "2", "b": "7", "c": "3"}) == {"a": "1"}


def test_settings_return_to_what_they_were_before_a_killed_run(tmp_path: Path) -> None:
    sysctls = tmp_path / "sys"
    instances = sysctls / "fs/inotify/max_user_instances"
    instances.parent.mkdir(parents=True)
    instances.write_text("128\n")
    record = tmp_path / "state/settings.json"
    MachineSettings(record, sysctls).apply()
    assert instances.read_text() == "8192"
    MachineSettings(record, sysctls).apply()
    assert json.loads(record.read_text())["fs.inotify.max_user_instances"]["before"] == "128"
    assert MachineSettings(record, sysctls).restore() == ["fs.inotify.max_user_instances"]
    assert instances.read_text() == "128"
    assert MachineSettings(record, sysctls).restore() == []


def test_transfer_nodes_get_a_data_interface_and_others_do_not() -> None:
    by_name = {node.name: "\n".join(network.node_commands(node)) for node in layout.NODES}
    assert "tuntap add dev data0 mode tun" in by_name["dtn-a"]
    assert "addr add 198.19.0.2/24 dev data0" in by_name["dtn-b"]
    assert "tuntap add dev data1 mode tap" in by_name["dtn-a"]
    assert "addr add 198.19.1.2/24 dev data1" in by_name["dtn-b"]
    assert "data" not in by_name["mgmt"]


def test_pods_on_a_bridge_of_a_transfer_node_are_reached_over_the_second_path() -> None:
    by_name = {node.name: network.node_commands(node) for node in layout.NODES}
    assert "route add 198.19.18.0/24 via 198.19.1.2 dev data1" in by_name["dtn-a"]
    assert "route add 198.19.17.0/24 via 198.19.1.1 dev data1" in by_name["dtn-b"]


def test_every_node_has_a_route_to_the_pods_of_every_other_and_to_services() -> None:
    for node in layout.NODES:
        lines = network.node_commands(node)
        for other in layout.NODES:
            assert (f"route add {other.pod_cidr} via {other.management_address}" in lines) == (other is not node)
        assert f"route add {layout.SERVICES} via {layout.CONTROL_PLANE_ADDRESS} dev mgmt0" in lines


@pytest.mark.parametrize(("seconds", "text"), [(0.44, "0.4 s"), (9.99, "10.0 s"), (12.4, "12 s"), (60, "1 min 00 s"), (185, "3 min 05 s")])
def test_durations_read_as_a_person_says_them(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_running_step_tells_how_long_it_usually_takes_if_that_is_long() -> None:
    assert running_line("etcd", 12, 60, "7 packages compiled") == "  …  etcd: 12 s (usually 1 min 00 s), 7 packages compiled"
    assert running_line("keys", 1, 2, "") == "  …  keys: 1.0 s"
    assert finished_line("etcd", 61, "") == "  ok etcd: 1 min 01 s"


def test_a_step_that_fails_is_not_reported_as_done() -> None:
    stream = io.StringIO()
    ticks = iter([0.0, 3.0])
    with pytest.raises(ValueError, match="broken"), BuildProgress(stream, lambda: next(ticks)).step("work"):
        raise ValueError("broken")
    assert stream.getvalue() == "  !! work: stopped after 3.0 s\n"
