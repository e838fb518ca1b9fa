"""Writes `build/sbom/TARGET.cdx.json` of the operator's, the advisor's and the mover's image."""

from __future__ import annotations

import argparse
import os
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from fairlead_dev.checkout import CHECKOUT
from fairlead_dev.cluster.artifacts.images import PROJECT_IMAGES, TAG
from fairlead_dev.cluster.cluster import Cluster
from fairlead_dev.cluster.layout import Layout
from fairlead_dev.cluster.machine.progress import BuildProgress
from fairlead_dev.errors import CommandUsageError, DevError
from fairlead_dev.sbom.contents import digest_of_mover, is_evidence, packages_of
from fairlead_dev.sbom.document import make_document
from fairlead_dev.sbom.image import read_image
from fairlead_dev.sbom.locks import check_python, crates_of, read_python_lock

OUTPUT = CHECKOUT / "build" / "sbom"
_PYTHON_PROJECTS: Mapping[str, Path] = {"operator": CHECKOUT / "operator", "advisor": CHECKOUT / "images" / "advisor"}
_TARGETS = (*_PYTHON_PROJECTS, "mover")


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code: 0, or that of a DevError."""
    parser = argparse.ArgumentParser(prog="python -m fairlead_dev.sbom", description=__doc__)
    parser.add_argument(
        "archives",
        nargs="*",
        metavar="TARGET=FILE",
        help="archives of `docker save`; without any, the images are built as for the local cluster",
    )
    parser.add_argument("--output", type=Path, default=OUTPUT, metavar="FOLDER")
    options = parser.parse_args(arguments)
    try:
        options.output.mkdir(parents=True, exist_ok=True)
        for target, archive in (_given(options.archives) or _built()).items():
            text = bill_of(target, archive)
            file = options.output / f"{target}.cdx.json"
            file.write_text(text + "\n", encoding="utf-8")
            print(f"{file}: {text.count('bom-ref') - 1} components, valid CycloneDX 1.6")
    except DevError as error:
        print(f"sbom: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def bill_of(target: str, archive: Path) -> str:
    """The document of one image. Raises DevError if the image is not what its lock names."""
    image = read_image(archive, is_evidence)
    packages = packages_of(image.files)
    if target in _PYTHON_PROJECTS:
        project = _PYTHON_PROJECTS[target]
        metadata = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        version = metadata["version"]
        locked = read_python_lock((project / "requirements.lock").read_text(encoding="utf-8"))
        check_python(image.name, packages, locked, {metadata["name"]: version})
    else:
        version = tomllib.loads((CHECKOUT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["package"]["version"]
        packages = [*packages, *crates_of(CHECKOUT)]
    return make_document(target, version, image.configuration, packages, digest_of_mover(image.files))


def _given(words: Sequence[str]) -> dict[str, Path]:
    archives: dict[str, Path] = {}
    for word in words:
        target, separator, file = word.partition("=")
        if not separator or target not in _TARGETS:
            raise CommandUsageError(f"{word!r}: write TARGET=FILE with one of {', '.join(_TARGETS)}, e.g. mover=mover.tar")
        archives[target] = Path(file)
    return archives


def _built() -> dict[str, Path]:
    """Builds what has changed, as for the local cluster."""
    cluster = Cluster(Layout.from_environment(os.environ), BuildProgress())
    archives = {archive.image: archive.path for archive in cluster.build_archives()}
    return {image.target: archives[image.name(TAG)] for image in PROJECT_IMAGES}


if __name__ == "__main__":
    sys.exit(main())
