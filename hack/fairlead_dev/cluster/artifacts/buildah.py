"""Image building with a store of our own, without leaving a mount on the machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fairlead_dev.cluster.errors import CommandFailedError
from fairlead_dev.cluster.layout import Layout
from fairlead_dev.cluster.machine import shell

HOST_SETTINGS = ("/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt")
"""Settings of this machine that package downloads need; mounted during a build only, so that no image holds them."""

LARGEST_STORE_KIB = 12 << 20


class Buildah:
    """Buildah on the store in the cache."""

    def __init__(self, paths: Layout) -> None:
        store = paths.cache / "buildah"
        self._store = store / "root"
        self._scratch = store / "tmp"
        self._configuration = store / "containers.conf"
        # In a mount namespace of its own: the storage driver binds its folder onto itself and would leave that behind.
        self._command = ["unshare", "--mount", "--propagation", "private", "--", "buildah"]
        self._command += ["--root", str(self._store), "--runroot", str(store / "run"), "--storage-driver", "overlay"]

    def trim(self) -> None:
        """Empty the store if layers of former builds have filled it; what is needed is built again."""
        if self._store.exists() and int(shell.run(["du", "-sk", self._store], timeout_s=120).split()[0]) > LARGEST_STORE_KIB:
            self._run(["rmi", "--all", "--force"])

    def label(self, image: str, name: str) -> str | None:
        """A label of an image in the store; None if there is no such image or label."""
        template = f'{{{{index .OCIv1.Config.Labels "{name}"}}}}'
        try:
            return self._run(["inspect", "--type", "image", "--format", template, image]).strip() or None
        except CommandFailedError:
            return None

    def from_rootfs(self, image: str, rootfs: Path, *, path: str, labels: Mapping[str, str]) -> None:
        """Make an image of one layer from an archive of a root file system."""
        container = self._run(["from", "scratch"]).strip()
        try:
            self._run(["add", "--quiet", container, str(rootfs), "/"])
            label_words = [word for name, value in labels.items() for word in ("--label", f"{name}={value}")]
            self._run(["config", "--env", f"PATH={path}", "--cmd", "python3", *label_words, container])
            self._run(["commit", "--quiet", container, image])
        finally:
            self._run(["rm", container])

    def build(self, image: str, dockerfile: Path, context: Path, *, target: str | None, arguments: Mapping[str, str], log: Path) -> None:
        """Build from a Dockerfile with local base images only; raises CommandFailedError naming the log."""
        words = ["bud", "--pull=never", "--layers", "--isolation", "chroot", "--network", "host", "--file", str(dockerfile), "--tag", image]
        for setting in HOST_SETTINGS:
            if Path(setting).exists():
                words += ["--volume", f"{setting}:{setting}:ro"]
        for name, value in arguments.items():
            words += ["--build-arg", f"{name}={value}"]
        if target:
            words += ["--target", target]
        shell.run_logged([*self._command, *words, str(context)], log, env=self._environment())

    def export(self, image: str, archive: Path) -> None:
        """Write an image as a docker archive; it appears under its name only when whole."""
        archive.parent.mkdir(parents=True, exist_ok=True)
        temporary = archive.with_suffix(".new")
        temporary.unlink(missing_ok=True)
        try:
            self._run(["push", "--quiet", image, f"docker-archive:{temporary}:{image}"])
            temporary.replace(archive)
        finally:
            temporary.unlink(missing_ok=True)

    def _run(self, words: list[str]) -> str:
        return shell.run([*self._command, *words], env=self._environment())

    def _environment(self) -> dict[str, str]:
        self._scratch.mkdir(parents=True, exist_ok=True)
        # Without this it makes a folder for networks in /etc, although no build uses one.
        self._configuration.write_text(f'[network]\nnetwork_config_dir = "{self._scratch.parent / "networks"}"\n')
        return {"TMPDIR": str(self._scratch), "CONTAINERS_CONF": str(self._configuration)}
