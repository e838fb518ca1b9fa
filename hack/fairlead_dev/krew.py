"""`make krew`: `kubectl fairlead` as packages that krew installs, for each platform, and the manifest that names them.

A package has the plugin, its locked packages as wheels for the platform, and a launcher. It needs Python 3.11 at the user's: a zip
application could not load the wheels' compiled parts, and a program with an interpreter of its own would be ten times as large.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import importlib.metadata
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from fairlead_dev.checkout import BINARIES, CHECKOUT
from fairlead_dev.errors import DevError

OUTPUT: Final = CHECKOUT / "build" / "krew"
LOCK: Final = CHECKOUT / "hack" / "python" / "dev.lock"
PLATFORMS: Final[Mapping[str, str]] = {"amd64": "x86_64", "arm64": "aarch64"}
"""Of Linux: the architecture as Go names it, and as wheels do."""
_PYTHON: Final = "3.11"
_GLIBC: Final = ("2_17", "2_24", "2_26", "2_27", "2_28")
"""The wheels' least versions of the C library that are taken; Debian 10 and RHEL 8 have 2.28."""
_OPERATOR: Final = CHECKOUT / "operator"
_IN_CLUSTER: Final = frozenset({"cryptography", "kopf", "prometheus-client", "pyroute2"})
"""Requirements of the operator that the plugin does not import."""
_LAYERS: Final = ("api", "core", "kube", "commands", "plugin")
_BIN: Final = "kubectl-fairlead"
_LAUNCHER: Final = f"""#!/bin/sh
# Runs the plugin beside it with its own packages alone.
here=$(dirname "$(readlink -f "$0")")
if ! command -v python{_PYTHON} >/dev/null; then
  echo "kubectl fairlead: Python {_PYTHON} is missing: install it, so that python{_PYTHON} is on the path" >&2
  exit 1
fi
exec python{_PYTHON} -I "$here/lib" "$@"
"""
_START: Final = "import sys\n\nfrom fairlead.plugin.main import main\n\nsys.exit(main())\n"


class KrewError(DevError):
    """A package cannot be made, or krew does not take it."""


def project() -> Mapping[str, Any]:
    """What the operator's pyproject.toml says of it."""
    described: Mapping[str, Any] = tomllib.loads((_OPERATOR / "pyproject.toml").read_text())["project"]
    return described


def wanted(requirements: Iterable[str]) -> frozenset[str]:
    """The packages that these requirements come to on Linux, with their own, by what is installed here."""
    found: set[str] = set()
    waiting = [Requirement(text) for text in requirements]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name in found or (requirement.marker is not None and not requirement.marker.evaluate({"extra": ""})):
            continue
        found.add(name)
        waiting += map(Requirement, importlib.metadata.requires(name) or ())
    return frozenset(found)


def plugin_packages() -> frozenset[str]:
    """The packages that the plugin needs, with those that they need."""
    described = project()
    requirements = [*described["dependencies"], *described["optional-dependencies"]["kubectl"]]
    return wanted(text for text in requirements if canonicalize_name(Requirement(text).name) not in _IN_CLUSTER)


def locked(lock: str, packages: Iterable[str]) -> str:
    """The part of a hashed lock about these packages. Raises KrewError where it lacks one."""
    entries: dict[str, str] = {
        canonicalize_name(entry.split("==")[0]): entry for entry in re.findall(r"^\S+==[^#]*(?:\n +--hash=\S+(?: \\)?)+", lock, re.M)
    }
    missing = sorted(set(packages) - entries.keys())
    if missing:
        raise KrewError(f"{LOCK.name} lacks {', '.join(missing)}: run `make lock`")
    return "".join(entries[name].rstrip(" \\") + "\n" for name in sorted(packages))


def manifest(version: str, url: str, digests: Mapping[str, str]) -> dict[str, Any]:
    """krew's manifest, by the SHA-256 of each architecture's package; `url` is where the packages can be had."""
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "fairlead"},
        "spec": {
            "version": f"v{version}",
            "shortDescription": "Submit bulk transfers, watch them, ask why they wait",
            "description": "Submits TransferJobs of Fairlead, shows their progress, says why they stand where they stand,\n"
            "and predicts what would become of a job. It uses your kubeconfig and your rights.\n",
            "caveats": f"It needs Python {_PYTHON} (python{_PYTHON}) on your path.\n",
            "platforms": [
                {
                    "selector": {"matchLabels": {"os": "linux", "arch": architecture}},
                    "uri": f"{url.rstrip('/')}/{package_name(version, architecture)}",
                    "sha256": digest,
                    "bin": _BIN,
                }
                for architecture, digest in digests.items()
            ],
        },
    }


def package_name(version: str, architecture: str) -> str:
    """The file name of a package."""
    return f"{_BIN}-{version}-linux-{architecture}.tar.gz"


def pack(folder: Path) -> bytes:
    """All files of a folder as a compressed archive that is the same however often it is made."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(each for each in folder.rglob("*") if each.is_file()):
            entry = tarfile.TarInfo(str(path.relative_to(folder)))
            content = path.read_bytes()
            entry.size, entry.mode = len(content), 0o755 if os.access(path, os.X_OK) else 0o644
            archive.addfile(entry, io.BytesIO(content))
    return gzip.compress(raw.getvalue(), mtime=0)


def fill(folder: Path, architecture: str) -> None:
    """Puts the launcher, the plugin and its packages into a folder. Raises KrewError."""
    launcher = folder / _BIN
    launcher.write_text(_LAUNCHER)
    launcher.chmod(0o755)
    shutil.copy(CHECKOUT / "LICENSE", folder)
    lib = folder / "lib"
    machine = PLATFORMS[architecture]
    with tempfile.NamedTemporaryFile("w", suffix=".lock") as lock:
        lock.write(locked(LOCK.read_text(), plugin_packages()))
        lock.flush()
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile", "--no-deps"]
        command += ["--require-hashes", "--only-binary=:all:", "--implementation=cp", f"--python-version={_PYTHON}"]
        command += [f"--platform=manylinux_{version}_{machine}" for version in _GLIBC]
        command += [f"--platform=manylinux2014_{machine}", "--target", str(lib), "-r", lock.name]
        _run(command)
    shutil.rmtree(lib / "bin", ignore_errors=True)
    ours, ignored = lib / "fairlead", shutil.ignore_patterns("__pycache__")
    for layer in _LAYERS:
        shutil.copytree(_OPERATOR / "fairlead" / layer, ours / layer, ignore=ignored)
    for module in (_OPERATOR / "fairlead").glob("*.py"):
        shutil.copy(module, ours)
    (lib / "__main__.py").write_text(_START)


def make(url: str, output: Path = OUTPUT) -> Path:
    """Makes the packages and the manifest, and returns the manifest's path. Raises KrewError."""
    version, digests = str(project()["version"]), dict[str, str]()
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    for architecture in PLATFORMS:
        with tempfile.TemporaryDirectory() as folder:
            fill(Path(folder), architecture)
            package = pack(Path(folder))
        (output / package_name(version, architecture)).write_bytes(package)
        digests[architecture] = hashlib.sha256(package).hexdigest()
    path = output / "fairlead.yaml"
    path.write_text(yaml.safe_dump(manifest(version, url, digests), sort_keys=False, width=120))
    return path


def check(path: Path, architecture: str) -> str:
    """Has krew's own tool judge the manifest, and krew install this machine's package from it; returns the plugin's help."""
    _run([str(BINARIES / "validate-krew-manifest"), "-manifest", str(path), "-skip-install"])
    package = path.parent / package_name(str(project()["version"]), architecture)
    with tempfile.TemporaryDirectory() as root:
        _run([str(BINARIES / "krew"), "install", f"--manifest={path}", f"--archive={package}"], KREW_ROOT=root)
        return _run([str(Path(root, "bin", _BIN)), "--help"])


def _run(command: list[str], **environment: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})
    if done.returncode:
        raise KrewError(f"{' '.join(command[:3])} … ended with {done.returncode}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--url", required=True, help="where the packages can be had")
    options = parser.parse_args(arguments)
    try:
        path = make(options.url)
        check(path, {machine: architecture for architecture, machine in PLATFORMS.items()}[os.uname().machine])
    except KrewError as error:
        raise SystemExit(f"krew: {error}") from error
    for each in sorted(path.parent.iterdir()):
        print(f"{each.relative_to(CHECKOUT)}: {each.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
