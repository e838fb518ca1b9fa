"""The job in a file, and the one that is made of it to be checked."""

from __future__ import annotations

import json
from typing import Any

import yaml

from fairlead.api.names import API_VERSION, CONTROLLER, KIND
from fairlead.kube.client import KubeObject

LONGEST_PREFIX = 40
_TTL_SECONDS = 60
"""After so long the operator removes a check whose command was killed."""


class ManifestError(Exception):
    """The file holds no job that can be checked. The message has the remedy."""


class _Loader(yaml.SafeLoader):
    """Leaves dates as they are written: no field of a job is one, and names and paths may look like one."""


_Loader.add_constructor("tag:yaml.org,2002:timestamp", lambda loader, node: node.value)


def read_manifest(text: str) -> KubeObject:
    """The one TransferJob in YAML or JSON. Raises ManifestError."""
    try:
        documents = [document for document in yaml.load_all(text, _Loader) if document is not None]
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        where = getattr(error, "problem_mark", None)
        line = f", line {where.line + 1}" if where is not None else ""
        raise ManifestError(f"it is no YAML ({getattr(error, 'problem', None) or error}{line}): correct it") from error
    jobs = [document for document in documents if isinstance(document, dict) and document.get("kind") == KIND]
    if len(jobs) != 1:
        found = f"{len(jobs)} {KIND}s" if jobs else f"no {KIND}"
        raise ManifestError(f"it has {found}: give a file with one")
    job: KubeObject = jobs[0]
    if job.get("apiVersion") != API_VERSION:
        raise ManifestError(f"its apiVersion is {job.get('apiVersion')!r}: write {API_VERSION}")
    metadata, spec = job.setdefault("metadata", {}), job.get("spec")
    if not isinstance(metadata, dict) or not isinstance(spec, dict):
        raise ManifestError("metadata and spec must be objects: correct it")
    if not (isinstance(metadata.get("name"), str) or isinstance(metadata.get("generateName"), str)):
        raise ManifestError("metadata.name is missing: name the job")
    try:
        json.dumps(job, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ManifestError(f"it has a value that is no JSON ({error}): correct it") from error
    if spec.get("managedBy", CONTROLLER) != CONTROLLER:
        raise ManifestError(f"spec.managedBy is {spec['managedBy']!r}, and Fairlead leaves such jobs alone: ask that controller")
    return job


def name_of(manifest: KubeObject) -> str:
    """Its name, or what its name begins with."""
    metadata = manifest["metadata"]
    return str(metadata.get("name") or metadata["generateName"])


def namespace_of(manifest: KubeObject) -> str | None:
    """The namespace that the file names."""
    namespace = manifest["metadata"].get("namespace")
    return namespace if isinstance(namespace, str) else None


def as_it_would_be(manifest: KubeObject, namespace: str, token: str) -> KubeObject:
    """The job itself under a name that nobody has, to ask the API server whether it would take it."""
    return {**manifest, "metadata": _metadata(manifest, namespace, token)}


def as_check(manifest: KubeObject, namespace: str, token: str, timeout_seconds: int) -> KubeObject:
    """The job that checks and moves nothing; it fails at once, and ends by itself if nobody removes it."""
    spec: dict[str, Any] = {
        **manifest["spec"],
        "preflightOnly": True,
        "suspend": False,
        "backoffLimit": 0,
        "activeDeadlineSeconds": timeout_seconds,
        "ttlSecondsAfterFinished": _TTL_SECONDS,
    }
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": _metadata(manifest, namespace, token), "spec": spec}


def _metadata(manifest: KubeObject, namespace: str, token: str) -> KubeObject:
    prefix = name_of(manifest)[:LONGEST_PREFIX].rstrip("-.")
    return {"name": f"{prefix}-preflight-{token}", "namespace": namespace}
