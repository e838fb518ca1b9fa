"""kubectl's errors and streams as the demo and the end-to-end tests meet them."""

from __future__ import annotations

import json
import stat
import time
from pathlib import Path

import pytest

from fairlead_dev.clients.kubectl import CommandError, Kubectl, run
from fairlead_dev.clients.watch import ObjectWatch, parse_stream


def fake_kubectl(folder: Path, script: str) -> Kubectl:
    program = folder / "kubectl"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return Kubectl((str(program),))


def test_a_failed_command_tells_its_code_and_words(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="exit code 3: the path is wrong") as caught:
        fake_kubectl(tmp_path, "echo the path is wrong >&2; exit 3").run("apply")
    assert caught.value.returncode == 3


def test_a_command_without_an_end_is_an_error() -> None:
    with pytest.raises(CommandError, match=r"no end within 0\.2 s"):
        run(("sleep", "60"), timeout_s=0.2)


def test_a_missing_program_is_an_error() -> None:
    with pytest.raises(CommandError, match="cannot be started"):
        run(("/nonexistent/program",))


def test_an_absent_object_is_none(tmp_path: Path) -> None:
    assert fake_kubectl(tmp_path, "exit 0").get("pod", "gone") is None


def test_objects_are_applied_as_one_list(tmp_path: Path) -> None:
    fake_kubectl(tmp_path, f"cat > {tmp_path}/stdin").apply({"kind": "A"}, {"kind": "B"})
    assert [item["kind"] for item in json.loads((tmp_path / "stdin").read_text())["items"]] == ["A", "B"]


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_a_stream_of_objects_may_be_cut_anywhere(size: int) -> None:
    values = [{"type": "ADDED", "object": {"note": 'brace } and quote "'}}, {"type": "DELETED", "object": {}}]
    text = "\n".join(json.dumps(value, indent=4) for value in values) + "\n"
    assert list(parse_stream(iter([text[at : at + size] for at in range(0, len(text), size)]))) == values


@pytest.mark.parametrize("indent", [None, 4], ids=["a line each", "many lines"])
def test_a_watch_collects_changes_in_order(tmp_path: Path, indent: int | None) -> None:
    events = [{"type": kind, "object": {"metadata": {"resourceVersion": str(at)}}} for at, kind in enumerate(["ADDED", "MODIFIED"])]
    (tmp_path / "events").write_text("\n".join(json.dumps(event, indent=indent) for event in events) + "\n")
    watch = ObjectWatch(fake_kubectl(tmp_path, f"exec cat {tmp_path}/events"), "pods", namespace="demo", patience_s=0)
    with watch:
        watch.wait_until_ended(timeout_s=120)
    assert [(change.kind, change.object["metadata"]["resourceVersion"]) for change in watch.changes()] == [
        ("ADDED", "0"),
        ("MODIFIED", "1"),
    ]
    assert not watch.alive()


def test_a_watch_that_the_server_ends_is_begun_again_and_a_version_is_collected_once(tmp_path: Path) -> None:
    for number, versions in enumerate(([("ADDED", "1"), ("MODIFIED", "2")], [], [("ADDED", "2"), ("MODIFIED", "3"), ("DELETED", "3")])):
        events = [{"type": kind, "object": {"metadata": {"uid": "u", "resourceVersion": version}}} for kind, version in versions]
        (tmp_path / f"stream-{number}").write_text("\n".join(map(json.dumps, events)))
    # Each stream ends, the second one with an error, as while the API server takes up a changed definition; then there are no more.
    script = f"number=$(ls {tmp_path} | grep -c begun); touch {tmp_path}/begun-$number; cat {tmp_path}/stream-$number || exec sleep 60"
    with ObjectWatch(fake_kubectl(tmp_path, script), "transferjob", name="job", namespace="demo") as watch:
        deadline_s = time.monotonic() + 120
        while len(watch.changes()) < 4 and time.monotonic() < deadline_s:
            time.sleep(0.02)
        assert watch.alive()
        assert [(change.kind, change.object["metadata"]["resourceVersion"]) for change in watch.changes()] == [
            ("ADDED", "1"),
            ("MODIFIED", "2"),
            ("MODIFIED", "3"),
            ("DELETED", "3"),
        ]
    assert not watch.alive()


def test_one_object_is_watched_by_a_selector_as_kubectl_drops_the_first_event_of_a_watch_by_name(tmp_path: Path) -> None:
    with ObjectWatch(
        fake_kubectl(tmp_path, f'echo "$@" > {tmp_path}/words'), "pods", name="mover", namespace="demo", patience_s=0
    ) as watch:
        watch.wait_until_ended(timeout_s=120)
    words = (tmp_path / "words").read_text().split()
    assert "--field-selector=metadata.name=mover" in words
    assert "mover" not in words


def test_a_change_is_seen_as_soon_as_its_line_is_complete(tmp_path: Path) -> None:
    event = json.dumps({"type": "ADDED", "object": {}})
    with ObjectWatch(fake_kubectl(tmp_path, f"echo '{event}'; exec sleep 60"), "pods", namespace="demo") as watch:
        deadline_s = time.monotonic() + 120
        while not watch.changes() and time.monotonic() < deadline_s:
            time.sleep(0.02)
        assert len(watch.changes()) == 1
