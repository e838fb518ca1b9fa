"""A bill of materials as CycloneDX 1.6 JSON."""

from __future__ import annotations

from collections.abc import Iterable

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

from fairlead_dev.errors import LabError
from fairlead_dev.sbom.contents import Package

_LICENCES = LicenseFactory()


class InvalidDocumentError(LabError):
    """A document that does not keep to the CycloneDX schema: a defect of ours."""


def make_document(target: str, version: str, configuration: str, packages: Iterable[Package], program_sha256: str | None) -> str:
    """The JSON text, validated. `configuration` is the digest of the image's configuration. Raises InvalidDocumentError."""
    properties = [Property(name="fairlead:image:configuration", value=configuration)] if configuration else []
    image = Component(
        type=ComponentType.CONTAINER,
        name=f"fairlead-{target}",
        version=version,
        bom_ref=f"fairlead-{target}",
        purl=PackageURL("oci", None, f"fairlead-{target}", version),
        licenses=[_LICENCES.make_from_string("Apache-2.0")],
        properties=properties,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=program_sha256)] if program_sha256 else [],
    )
    document = Bom(components=[_component(package) for package in packages])
    document.metadata.component = image
    document.register_dependency(image, document.components)
    text = str(JsonV1Dot6(document).output_as_string(indent=2))
    problem = validate(text)
    if problem:
        raise InvalidDocumentError(f"the bill of materials of {target} is no CycloneDX 1.6: {problem}")
    return text


def validate(text: str) -> str:
    """What the CycloneDX 1.6 schema refuses in `text`; empty if nothing."""
    problem = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    return "" if problem is None else str(problem)


def _component(package: Package) -> Component:
    url = package.url
    return Component(
        type=ComponentType.LIBRARY,
        name=package.name,
        version=package.version,
        bom_ref=url.to_string(),
        purl=url,
        licenses=[_LICENCES.make_from_string(package.licence)] if package.licence else [],
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=package.sha256)] if package.sha256 else [],
    )
