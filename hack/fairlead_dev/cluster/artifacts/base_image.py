"""The public Python base image, built here from Debian packages under the same name, for machines that reach no registry."""

from __future__ import annotations

import hashlib
from pathlib import Path

from fairlead_dev.cluster.artifacts.buildah import Buildah
from fairlead_dev.cluster.layout import Layout
from fairlead_dev.cluster.machine import shell
from fairlead_dev.cluster.machine.progress import BuildProgress

NAME = "docker.io/library/python:3.11-slim-bookworm"
SUITE = "bookworm"
PACKAGES = ("ca-certificates", "nftables", "python3", "python3-venv")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_LEFT_OUT = ("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*")
_HOOK = (
    'ln -s /usr/bin/python3 "$1/usr/local/bin/python3"; ln -s /usr/bin/python3 "$1/usr/local/bin/python"; '
    'rm -rf "$1"/etc/resolv.conf "$1"/etc/hostname "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/*.bin "$1"/var/log/*.log'
)


def digest() -> str:
    """What the image is made of; another digest means another image."""
    return hashlib.sha256("\0".join((SUITE, *PACKAGES, *_LEFT_OUT, _HOOK, PATH)).encode()).hexdigest()[:12]


def ensure(buildah: Buildah, paths: Layout, progress: BuildProgress) -> None:
    """Make the base image unless the store holds the present one."""
    label = "io.fairlead.base-digest"
    if buildah.label(NAME, label) == digest():
        return
    root = paths.image_archives / "base-rootfs.tar"
    paths.image_archives.mkdir(parents=True, exist_ok=True)
    try:
        with progress.step(f"base image {NAME} from Debian packages", 60):
            shell.run_logged(_mmdebstrap(root), paths.logs / "base-image.log")
            buildah.from_rootfs(NAME, root, path=PATH, labels={label: digest()})
    finally:
        root.unlink(missing_ok=True)


def _mmdebstrap(root: Path) -> list[str]:
    exclusions = [f"--dpkgopt=path-exclude={pattern}" for pattern in _LEFT_OUT]
    include = f"--include={','.join(PACKAGES)}"
    return ["mmdebstrap", "--variant=minbase", "--mode=root", include, *exclusions, f"--customize-hook={_HOOK}", SUITE, str(root)]
