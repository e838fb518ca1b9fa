"""The images a cluster starts with, each built again only when something it is made of has changed."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fairlead_dev.checkout import CHECKOUT
from fairlead_dev.cluster import layout
from fairlead_dev.cluster.artifacts import base_image, build
from fairlead_dev.cluster.artifacts.buildah import Buildah
from fairlead_dev.cluster.artifacts.programs import path_of
from fairlead_dev.cluster.errors import ClusterError
from fairlead_dev.cluster.layout import Layout
from fairlead_dev.cluster.machine import shell
from fairlead_dev.cluster.machine.progress import BuildProgress

PAUSE_IMAGE = f"localhost/pause:{layout.PAUSE_VERSION}"
COREDNS_IMAGE = f"localhost/coredns:{layout.COREDNS_VERSION}"
MONITORING_IMAGES = {
    "prometheus": f"localhost/prometheus:{layout.PROMETHEUS_VERSION}",
    "prometheus-operator": f"localhost/prometheus-operator:{layout.PROMETHEUS_OPERATOR_VERSION}",
    "prometheus-config-reloader": f"localhost/prometheus-config-reloader:{layout.PROMETHEUS_OPERATOR_VERSION}",
}
"""By program."""
KUEUE_IMAGES = {"kueue": f"localhost/kueue:{layout.KUEUE_VERSION}"}
PROGRAM_DOCKERFILE = CHECKOUT / "hack" / "cluster" / "program.Dockerfile"

DIGITS_IN_NAME = 16
KEPT_ARCHIVES = 4
"""Of each image, the ones used last: another checkout may be about to import one that is not this checkout's."""

PREBUILT_MOVER = Path("build/image/fairlead-mover")
"""Where the Dockerfile's stage `mover-prebuilt` expects the binary, relative to the checkout."""


@dataclass(frozen=True, slots=True)
class Archive:
    """An image as a file, with the digest of what it was made of."""

    image: str
    path: Path
    digest: str


@dataclass(frozen=True, slots=True)
class ProjectImage:
    """An image of this project: a target of the Dockerfile and the paths of the checkout that go into it."""

    target: str
    inputs: tuple[str, ...]
    expected_s: float

    def name(self, tag: str) -> str:
        return f"localhost/fairlead-{self.target}:{tag}"


TAG = "dev"
"""Of the images of a checkout."""
PYTHON_TARGETS = ("operator", "advisor")
_PYTHON_INPUTS = ("Dockerfile", "images/build.lock")

PROJECT_IMAGES: tuple[ProjectImage, ...] = (
    ProjectImage("operator", (*_PYTHON_INPUTS, "operator/requirements.lock", "operator/pyproject.toml", "operator/fairlead"), 45),
    ProjectImage("mover", ("Dockerfile", str(PREBUILT_MOVER)), 3),
    ProjectImage(
        "advisor",
        (*_PYTHON_INPUTS, "images/advisor/requirements.lock", "images/advisor/pyproject.toml", "images/advisor/fairlead_advisor"),
        45,
    ),
)


def digest_of(root: Path, inputs: Iterable[str], *, salt: str = "") -> str:
    """A digest of files and folders: names, permission to execute, contents. Raises ClusterError naming what is missing."""
    digest = hashlib.sha256(salt.encode())
    for name in inputs:
        path = root / name
        if not path.exists():
            raise ClusterError(f"{path} is missing; it is part of an image")
        for file in sorted(_files(path)):
            digest.update(f"\0{file.relative_to(root)}\0{file.stat().st_mode & 0o111:o}\0".encode())
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def _files(path: Path) -> Iterable[Path]:
    if path.is_file():
        return [path]
    return (file for file in path.rglob("*") if file.is_file() and "__pycache__" not in file.parts)


def archive_of(image: str, name: str, digest: str, folder: Path) -> Archive:
    """The archive of an image that is made of this: the folder is shared by checkouts, and each has others."""
    return Archive(image, folder / f"{name}-{digest[:DIGITS_IN_NAME]}.tar", digest)


def prune(archive: Archive) -> None:
    """Remove the archives of the same image that have not been used for longest, and those of names without a digest."""
    name = archive.path.stem[: -DIGITS_IN_NAME - 1]
    own = re.compile(rf"{re.escape(name)}-[0-9a-f]{{{DIGITS_IN_NAME}}}\.tar")
    found = [path for path in archive.path.parent.iterdir() if own.fullmatch(path.name)]
    by_use = sorted(found, key=lambda path: path.stat().st_mtime_ns, reverse=True)
    for path in (*by_use[KEPT_ARCHIVES:], *(archive.path.with_name(f"{name}{suffix}") for suffix in (".tar", ".digest"))):
        path.unlink(missing_ok=True)


class ImageSet:
    """The images of this checkout and of the cluster itself, kept as archives in the cache."""

    def __init__(self, paths: Layout, progress: BuildProgress, tag: str = TAG) -> None:
        self._paths = paths
        self._progress = progress
        self._tag = tag
        self._buildah = Buildah(paths)

    def ensure_system(self) -> list[Archive]:
        """The pause image and CoreDNS."""
        return [self._ensure_program("pause", PAUSE_IMAGE), self._ensure_program("coredns", COREDNS_IMAGE)]

    def ensure_programs(self, images: Mapping[str, str]) -> list[Archive]:
        """Images by their one program, which must be built."""
        return [self._ensure_program(program, image) for program, image in images.items()]

    def ensure_project(self) -> list[Archive]:
        """The operator, the mover and the advisor of this checkout."""
        self._place_mover()
        archives = []
        for image in PROJECT_IMAGES:
            salt = base_image.digest() if image.target in PYTHON_TARGETS else ""
            name, file = image.name(self._tag), f"fairlead-{image.target}" + ("" if self._tag == TAG else f"-{self._tag}")
            archive = self._archive(name, file, digest_of(self._paths.repository, image.inputs, salt=salt))
            if not self._is_current(archive):
                self._buildah.trim()
                if salt:
                    base_image.ensure(self._buildah, self._paths, self._progress)
                with self._progress.step(f"image {name}", image.expected_s):
                    self._buildah.build(
                        name,
                        self._paths.repository / "Dockerfile",
                        self._paths.repository,
                        target=image.target,
                        arguments={"MOVER_STAGE": "mover-prebuilt", "PYTHON_IMAGE": base_image.NAME},
                        log=self._paths.logs / f"image-{image.target}.log",
                    )
                    self._export(archive)
            archives.append(archive)
        return archives

    def _ensure_program(self, program: str, image: str) -> Archive:
        path = path_of(program, self._paths)
        archive = self._archive(image, program, digest_of(path.parent, [path.name], salt=PROGRAM_DOCKERFILE.read_text()))
        if not self._is_current(archive):
            with self._progress.step(f"image {image}"):
                log = self._paths.logs / f"image-{program}.log"
                self._buildah.build(image, PROGRAM_DOCKERFILE, path.parent, target=None, arguments={"PROGRAM": program}, log=log)
                self._export(archive)
        return archive

    def _place_mover(self) -> None:
        """Put the static mover, without debugging symbols, where the Dockerfile finds it; rewritten only if it differs."""
        source = build.rust_program("fairlead-mover", self._paths)
        target = self._paths.repository / PREBUILT_MOVER
        stamp = target.with_suffix(".stamp")
        wanted = f"{source}:{source.stat().st_mtime_ns}:{source.stat().st_size}"
        if target.exists() and stamp.exists() and stamp.read_text() == wanted:
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_suffix(".new")
        shell.run(["strip", "-o", temporary, source])
        temporary.replace(target)
        stamp.write_text(wanted)

    def _archive(self, image: str, name: str, digest: str) -> Archive:
        return archive_of(image, name, digest, self._paths.image_archives)

    def _is_current(self, archive: Archive) -> bool:
        if not archive.path.exists():
            return False
        archive.path.touch()
        return True

    def _export(self, archive: Archive) -> None:
        self._buildah.export(archive.image, archive.path)
        prune(archive)
