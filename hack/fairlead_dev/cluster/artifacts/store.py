"""The unpacked images: one store in the cache, from which every node starts without unpacking anything."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fairlead_dev.cluster.artifacts.images import Archive
from fairlead_dev.cluster.artifacts.programs import path_of
from fairlead_dev.cluster.errors import ClusterError
from fairlead_dev.cluster.layout import Layout
from fairlead_dev.cluster.machine import shell
from fairlead_dev.cluster.machine.progress import BuildProgress

NAMESPACE = "k8s.io"
"""The containerd namespace that the kubelet uses."""

_CONFIGURATION = """version = 3
root = "{root}"
state = "{state}"
disabled_plugins = ["io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri",
  "io.containerd.internal.v1.opt", "io.containerd.nri.v1.nri"]
[grpc]
  address = "{state}/containerd.sock"
[ttrpc]
  address = "{state}/ttrpc.sock"
"""


def load_record(path: Path) -> dict[str, str]:
    """Which image (by name) was imported with which digest; empty if the record is missing or damaged."""
    try:
        record: dict[str, str] = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return record


def save_record(path: Path, record: dict[str, str]) -> None:
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(record, indent=1))
    temporary.replace(path)


def not_in(record: dict[str, str], archives: Iterable[Archive]) -> list[Archive]:
    """The archives whose present contents the record does not hold."""
    return [archive for archive in archives if record.get(archive.image) != archive.digest]


def store_folder(paths: Layout) -> Path:
    """The folder of the unpacked images."""
    return paths.image_archives / "store"


def ensure_store(archives: list[Archive], paths: Layout, progress: BuildProgress) -> None:
    """Unpack into the store what it does not hold yet."""
    store = store_folder(paths)
    record_file = store.with_suffix(".json")
    record = load_record(record_file) if store.is_dir() else {}
    outdated = not_in(record, archives)
    if not outdated:
        return
    with progress.step(f"unpacking {len(outdated)} images, once for all nodes", 10 * len(outdated)), _containerd(store, paths) as socket:
        for archive in outdated:
            shell.run([path_of("ctr", paths), "-a", socket, "-n", NAMESPACE, "images", "import", "--local", archive.path])
            record[archive.image] = archive.digest
            save_record(record_file, record)


@contextmanager
def _containerd(root: Path, paths: Layout) -> Iterator[Path]:
    """A containerd for unpacking only, in a mount namespace of its own, and the path of its socket."""
    root.mkdir(parents=True, exist_ok=True)
    state = Path(tempfile.mkdtemp(prefix="fairlead-store-"))
    log = paths.logs / "store.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    configuration = state / "config.toml"
    configuration.write_text(_CONFIGURATION.format(root=root, state=state))
    socket = state / "containerd.sock"
    # It must not outlive this process, however that ends: the store must have one writer.
    isolate = ["unshare", "--mount", "--propagation", "private", "--", "setpriv", "--pdeathsig", "TERM", "--"]
    with log.open("wb") as output:
        daemon = subprocess.Popen(
            [*isolate, str(path_of("containerd", paths)), "--config", str(configuration)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        try:
            version = [str(path_of("ctr", paths)), "-a", str(socket), "version"]
            shell.wait_until(lambda: socket.exists() and shell.succeeds(version), "containerd did not answer", timeout_s=120)
        except ClusterError as error:
            raise ClusterError(f"the image store cannot be opened: {error}; see {log}") from error
        yield socket
    finally:
        daemon.terminate()
        daemon.wait()
        shutil.rmtree(state, ignore_errors=True)


def copy_store(store: Path, target: Path) -> None:
    """Give a node the unpacked images: hard links where the file system allows, since layers are never written again.

    The databases are written in place and must be copies.
    """
    if any(target.iterdir()):
        return
    same_disk = store.stat().st_dev == target.stat().st_dev
    shell.run(["cp", "-a", *(["--link"] if same_disk else ["--reflink=auto"]), f"{store}/.", target])
    if same_disk:
        for database in target.rglob("*.db"):
            copy = database.with_suffix(".copy")
            shutil.copy2(database, copy)
            copy.replace(database)
