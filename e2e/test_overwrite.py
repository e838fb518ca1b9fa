"""What happens to files that exist at the destination, under each overwrite policy."""

from __future__ import annotations

from e2e.lib.lab import Lab

FILES = 4
BYTES = 8_000_000
IDENTICAL = "run42/data/part-00001.bin"
DIFFERENT = "run42/data/part-00002.bin"


def inode(lab: Lab, path: str) -> str:
    return lab.cluster.on(lab.destination.node, "stat", "--format=%i", f"{lab.destination.path}/{path}").decode()


def prepare(lab: Lab) -> None:
    """A source, and a destination with an identical file, one of other content and the same size and time, and one of its own."""
    lab.write(lab.source, "plain", bytes_total=BYTES, files=FILES)
    lab.write(lab.destination, "plain", bytes_total=BYTES, files=FILES)
    source, destination = f"{lab.destination.path}/run42/data", f"{lab.destination.path}/{DIFFERENT}"
    script = (
        'cd "$1" && rm part-00000.bin part-00003.bin && cp -p part-00002.bin /tmp/"$3" && '
        'printf X | dd of="$2" bs=1 seek=1000 conv=notrunc status=none && touch -r /tmp/"$3" "$2"; rm -f /tmp/"$3"'
    )
    lab.cluster.on(lab.destination.node, "sh", "-c", script, "sh", source, destination, f"{lab.namespace}.time")
    lab.write_file(lab.destination, "run42/own.txt", "not in the source\n")


def test_never_fails_and_leaves_every_file_as_it_was(lab: Lab) -> None:
    prepare(lab)
    before = lab.kept(lab.destination)
    job = lab.submit(data={"overwrite": "Never"})
    failed = job.wait_failed()
    found = next(c for c in failed["status"]["conditions"] if c["type"] == "Failed")
    assert found["reason"] == "DestinationExists"
    assert "part-0000" in found["message"]
    job.delete()
    assert lab.kept(lab.destination) == before


def test_never_succeeds_where_nothing_is_in_the_way(lab: Lab) -> None:
    lab.write(lab.source, "plain", bytes_total=BYTES, files=FILES)
    lab.write_file(lab.destination, "run42/own.txt", "not in the source\n")
    lab.submit(data={"overwrite": "Never"}).wait_succeeded()
    found = dict(lab.listing(lab.destination, "run42"))
    assert found.pop(b"own.txt").size_bytes == len("not in the source\n")
    source = lab.listing(lab.source, "run42")
    assert {path: entry.sha256 for path, entry in found.items()} == {path: entry.sha256 for path, entry in source.items()}


def test_if_different_skips_identical_files_and_replaces_the_others(lab: Lab) -> None:
    prepare(lab)
    own = lab.listing(lab.destination)[b"run42/own.txt"]
    identical = inode(lab, IDENTICAL)
    job = lab.submit(data={"overwrite": "IfDifferent"})
    done = job.wait_succeeded()

    progress = done["status"]["progress"]
    assert (progress["filesTotal"], progress["filesSkipped"], progress["filesTransferred"]) == (FILES, 1, FILES - 1)
    assert progress["bytesSkipped"] == BYTES // FILES
    assert inode(lab, IDENTICAL) == identical
    assert_source_arrived(lab)
    assert lab.listing(lab.destination)[b"run42/own.txt"] == own


def test_always_replaces_every_file(lab: Lab) -> None:
    prepare(lab)
    own = lab.listing(lab.destination)[b"run42/own.txt"]
    identical = inode(lab, IDENTICAL)
    job = lab.submit(data={"overwrite": "Always"})
    done = job.wait_succeeded()

    assert done["status"]["progress"]["filesTransferred"] == FILES
    assert inode(lab, IDENTICAL) != identical
    assert_source_arrived(lab)
    assert lab.listing(lab.destination)[b"run42/own.txt"] == own


def assert_source_arrived(lab: Lab) -> None:
    """Every file of the source is at the destination with the same content; what else is there does not matter."""
    source, destination = lab.listing(lab.source, "run42"), lab.listing(lab.destination, "run42")
    files = {path: entry for path, entry in source.items() if entry.kind == "f"}
    assert len(files) == FILES
    assert {path: destination[path].sha256 for path in files} == {path: entry.sha256 for path, entry in files.items()}
    assert {path: destination[path].mtime for path in files} == {path: entry.mtime for path, entry in files.items()}
