"""JSON schemas of every kind that the chart makes, for kubeconform, without a network.

`schemas/*.json` hold what others define, without descriptions: Kubernetes' own kinds as in its OpenAPI document, those of the Prometheus
operator and of Cilium as in their CustomResourceDefinitions. `python -m fairlead_dev.chart schemas` writes them anew from the Go modules.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from fairlead_dev.cluster.layout import KUBERNETES_VERSION
from fairlead_dev.errors import LabError
from fairlead_dev.generate import crd

FOLDER = Path(__file__).parent / "schemas"
KUBERNETES = FOLDER / "kubernetes.json"
OTHERS = FOLDER / "others.json"

KINDS = (
    *("v1/ConfigMap", "v1/Namespace", "v1/Pod", "v1/Secret", "v1/Service", "v1/ServiceAccount", "v1/PersistentVolumeClaim"),
    *("apps/v1/DaemonSet", "apps/v1/Deployment", "batch/v1/Job", "policy/v1/PodDisruptionBudget", "scheduling.k8s.io/v1/PriorityClass"),
    *("networking.k8s.io/v1/NetworkPolicy", "apiextensions.k8s.io/v1/CustomResourceDefinition", "coordination.k8s.io/v1/Lease"),
    *(f"rbac.authorization.k8s.io/v1/{kind}" for kind in ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")),
    *(f"admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy{suffix}" for suffix in ("", "Binding")),
)
"""Kinds of Kubernetes, as group/version/kind; the core group has none."""

MODULES: Mapping[str, tuple[str, ...]] = {
    "github.com/prometheus-operator/prometheus-operator@v0.92.0": tuple(
        f"example/prometheus-operator-crd/monitoring.coreos.com_{plural}.yaml"
        for plural in ("podmonitors", "servicemonitors", "prometheusrules")
    ),
    "github.com/cilium/cilium@v1.20.0": tuple(
        f"pkg/k8s/apis/cilium.io/client/crds/v2/{plural}.yaml" for plural in ("ciliumnetworkpolicies", "ciliumclusterwidenetworkpolicies")
    ),
}
"""Go modules and the definitions in them."""

_CHOICES = ("allOf", "anyOf", "oneOf", "not")
_PROSE = ("description", "x-kubernetes-validations", "format", "example", "default")


def write_files(folder: Path) -> str:
    """Writes a schema for each kind into `folder`; returns what kubeconform needs as its `-schema-location`."""
    kubernetes = json.loads(KUBERNETES.read_text(encoding="utf-8"))["definitions"]
    for identity, definition in _kubernetes_kinds(kubernetes).items():
        _write(folder, identity, {"$ref": f"#/definitions/{definition}", "definitions": kubernetes})
    own = [crd.custom_resource_definition(resource) for resource in crd.RESOURCES]
    for identity, schema in {**_of_definitions(own), **json.loads(OTHERS.read_text(encoding="utf-8"))}.items():
        _write(folder, identity, schema)
    return f"{folder}/{{{{.Group}}}}/{{{{.ResourceAPIVersion}}}}/{{{{.ResourceKind}}}}.json"


def refresh() -> None:
    """Writes the committed files anew from the Go modules, which are downloaded where they are missing. Raises LabError."""
    openapi = json.loads((_module(f"k8s.io/kubernetes@{KUBERNETES_VERSION}") / "api/openapi-spec/swagger.json").read_text(encoding="utf-8"))
    definitions = openapi["definitions"]
    wanted: dict[str, Any] = {}
    roots = [name for name, body in definitions.items() if any(identity in KINDS for identity in _identities(body))]
    while roots:
        name = roots.pop()
        if name not in wanted:
            # A number is a quantity too.
            wanted[name] = {"type": ["string", "number"]} if name.endswith(".Quantity") else _closed(definitions[name])
            roots += _references(wanted[name])
    KUBERNETES.write_text(
        json.dumps({"version": KUBERNETES_VERSION, "definitions": dict(sorted(wanted.items()))}, separators=(",", ":")) + "\n"
    )
    bodies = [yaml.safe_load((_module(module) / path).read_text(encoding="utf-8")) for module, paths in MODULES.items() for path in paths]
    OTHERS.write_text(json.dumps(_of_definitions(bodies), separators=(",", ":")) + "\n")


def _module(version: str) -> Path:
    done = subprocess.run(("go", "mod", "download", "-json", version), capture_output=True, text=True, check=False)
    if done.returncode:
        raise LabError(f"go mod download {version}: {done.stderr.strip() or done.stdout.strip()}")
    return Path(json.loads(done.stdout)["Dir"])


def _identities(definition: Mapping[str, Any]) -> Iterable[str]:
    for each in definition.get("x-kubernetes-group-version-kind") or ():
        yield "/".join(part for part in (each["group"], each["version"], each["kind"]) if part)


def _kubernetes_kinds(definitions: Mapping[str, Any]) -> dict[str, str]:
    return {identity: name for name, body in definitions.items() for identity in _identities(body) if identity in KINDS}


def _of_definitions(bodies: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The schemas within CustomResourceDefinitions, by group/version/kind."""
    found: dict[str, Any] = {}
    for body in bodies:
        for version in body["spec"]["versions"]:
            identity = "/".join((body["spec"]["group"], version["name"], body["spec"]["names"]["kind"]))
            schema = _closed(version["schema"]["openAPIV3Schema"])
            schema["properties"] |= {
                name: {"type": kind} for name, kind in (("apiVersion", "string"), ("kind", "string"), ("metadata", "object"))
            }
            found[identity] = schema
    return found


def _closed(schema: Any, *, is_part: bool = False) -> Any:
    """Without prose, and refusing fields that it does not name, as `kubectl apply --validate=strict` does.

    `is_part`: of a choice, which names some fields of the object that the whole schema describes and stays open.
    """
    if isinstance(schema, list):
        return [_closed(each, is_part=is_part) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {
        key: _closed(value, is_part=is_part or key in _CHOICES)
        for key, value in schema.items()
        if key not in _PROSE or isinstance(value, dict)
    }
    if schema.get("x-kubernetes-int-or-string") is True or schema.get("format") == "int-or-string":
        kept.pop("anyOf", None)
        kept["type"] = ["string", "integer"]
    is_object = isinstance(schema.get("properties"), dict) and isinstance(schema.get("type", "object"), str)
    if is_object and not is_part and not schema.get("x-kubernetes-preserve-unknown-fields"):
        kept.setdefault("additionalProperties", False)
    return kept


def _references(schema: Any) -> list[str]:
    if isinstance(schema, dict):
        own = [schema["$ref"].rpartition("/")[2]] if isinstance(schema.get("$ref"), str) else []
        return own + [name for value in schema.values() for name in _references(value)]
    return [name for each in schema for name in _references(each)] if isinstance(schema, list) else []


def _write(folder: Path, identity: str, schema: Mapping[str, Any]) -> None:
    # Kubeconform asks for kinds in lower case, and calls the core group by its version.
    group, version, kind = identity.rpartition("/")[0].rpartition("/")[0], *identity.split("/")[-2:]
    path = folder / (group or version) / version / f"{kind.lower()}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(schema), encoding="utf-8")
