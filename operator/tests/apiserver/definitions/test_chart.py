"""What the chart renders: accepted by the API server, understood by the operator, and refused where values cannot work."""

from __future__ import annotations

import functools
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from control_plane import CHECKOUT, find_programs
from lab import NAMESPACES, Kubectl, read_documents

from fairlead.agent.main import read_options as read_agent_options
from fairlead.api import names
from fairlead.handlers.options import CiliumOptions, read_options
from fairlead.kube.observe.pods import OFFSETS, PORT_ADVISOR, PORT_HTTP

CHART = CHECKOUT / "charts" / "fairlead"
APP_VERSION = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
"""What an empty tag of an image stands for."""

EVERYTHING: dict[str, Any] = {
    "images": {"mover": {"repository": "registry/mover", "tag": "7", "pullPolicy": "Always"}},
    "identities": {"namespaces": {"physics": {"users": ["10000-10999"], "defaultUser": 10000}}},
    "imagePullSecrets": ["pull"],
    "hostNetwork": {"namespaces": ["demo", "physics"]},
    "ports": {"first": 30000, "last": 30999},
    "movers": {
        "tolerations": [{"key": "dtn", "operator": "Exists"}],
        "priorityClassName": "bulk",
        "startupTimeoutSeconds": 60,
        "wholeCpus": 4,
    },
    "advisor": {"probeSeconds": 5},
    "nodeSelector": {"kubernetes.io/hostname": "mgmt"},
    "tolerations": [{"operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "priorityClassName": "system-cluster-critical",
    "podAnnotations": {"a": "b"},
    "podLabels": {"c": "d"},
    "serviceAccount": {"annotations": {"e": "f"}},
    "commonLabels": {"team": "network"},
    "metrics": {"service": {"annotations": {"g": "h"}}},
    "podMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "cilium": {"bandwidthManager": "auto", "configMap": "settings"},
    "recheckIntervalSeconds": 7,
    "nodeGuard": {"enabled": True, "nodeSelector": {"dtn": "true"}, "tolerations": [{"operator": "Exists"}]},
    "nodeAgent": {"enabled": True, "port": 9900, "storagePaths": ["/data", "/scratch"], "nodeSelector": {"dtn": "true"}},
}


ON_NODES = {"fairlead-guard", "fairlead-node-agent", "fairlead-node-agent-pods"}


def _helm(*arguments: str, values: dict[str, Any] | None = None, check: bool = True) -> subprocess.CompletedProcess[str]:
    command = [str(find_programs()["helm"]), *arguments, "--values", "-"]
    return subprocess.run(command, input=json.dumps(values or {}), capture_output=True, text=True, check=check)


def _render(values: dict[str, Any] | None = None, *, hooks: bool = False) -> list[dict[str, Any]]:
    """What belongs to the release; with `hooks` what Helm makes for a test and for the end of the release."""
    documents = read_documents(_manifests(json.dumps(values or {}), hooks=hooks))
    return [document for document in documents if ("helm.sh/hook" in document["metadata"].get("annotations", {})) is hooks]


@functools.cache
def _manifests(values: str, *, hooks: bool) -> str:
    where = ("--namespace", "fairlead-system", "--kube-version", "1.34.0")
    return _helm("template", "fairlead", str(CHART), *where, *(() if hooks else ("--no-hooks",)), values=json.loads(values)).stdout


def _of_kind(documents: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [document for document in documents if document["kind"] == kind]


def _environment(documents: list[dict[str, Any]]) -> dict[str, str]:
    (deployment,) = _of_kind(documents, "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return {entry["name"]: entry["value"] for entry in container["env"] if "value" in entry}


def test_helm_finds_nothing_to_complain_about() -> None:
    assert "0 chart(s) failed" in _helm("lint", str(CHART)).stdout


@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["defaults", "everything"])
def test_the_api_server_accepts_every_object_under_strict_validation(cluster: None, kubectl: Kubectl, values: dict[str, Any]) -> None:
    # PodMonitors need the Prometheus operator's definitions, and what goes into a namespace needs that.
    documents = [document for document in _render(values) if document["kind"] != "PodMonitor"]
    for namespace in _of_kind(documents, "Namespace"):
        kubectl.apply(namespace, server_side=True)
    manifest = json.dumps({"apiVersion": "v1", "kind": "List", "items": documents})
    kubectl("apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "-f", "-", stdin=manifest)


@pytest.mark.parametrize("length", [54, 63])
def test_a_long_name_makes_no_object_that_the_api_server_refuses(cluster: None, kubectl: Kubectl, length: int) -> None:
    values = {"fullnameOverride": "f" * length, "nodeGuard": {"enabled": True}, "nodeAgent": {"enabled": True}}
    documents = [*_render(values), *_render(values, hooks=True)]
    for namespace in _of_kind(documents, "Namespace"):
        kubectl.apply(namespace, server_side=True)
    manifest = json.dumps({"apiVersion": "v1", "kind": "List", "items": documents})
    kubectl("apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", "-", stdin=manifest)


def test_names_that_were_short_enough_stay_what_they_were() -> None:
    for length, kind, suffix in ((53, "Job", "-uninstall"), (55, "Service", "-metrics")):
        documents = _render({"fullnameOverride": "f" * length}, hooks=kind == "Job")
        assert [each["metadata"]["name"] for each in _of_kind(documents, kind)] == ["f" * length + suffix]


def test_the_operator_understands_what_the_deployment_tells_it() -> None:
    options = read_options([], _environment(_render(EVERYTHING)))
    assert (options.template.mover.reference, options.template.mover.pull_policy) == ("registry/mover:7", "Always")
    assert options.template.advisor.reference == f"fairlead-advisor:{APP_VERSION}"
    assert options.template.tolerations == ({"key": "dtn", "operator": "Exists"},)
    assert options.template.image_pull_secrets == ("pull",)
    assert options.template.priority_class == "bulk"
    assert options.template.whole_cpus is not None and options.template.whole_cpus.mover == 4
    assert options.settings.host_network_namespaces == {"demo", "physics"}
    assert (options.settings.ports.first, options.settings.ports.last) == (30000, 30999)
    assert options.settings.startup_timeout.total_seconds() == 60
    assert options.settings.probe_duration.total_seconds() == 5
    assert options.settings.recheck_interval.total_seconds() == 7
    assert options.settings.node_guard
    assert options.cilium == CiliumOptions("auto", "kube-system", "settings")
    assert options.settings.identities.of("physics").default_user == 10000
    assert options.lease is not None
    assert (options.lease.namespace, options.lease.name) == ("fairlead-system", "fairlead")


def test_a_digest_takes_precedence_over_the_tag() -> None:
    digest = f"sha256:{'0' * 64}"
    values = {"images": {"mover": {"repository": "registry/mover", "tag": "7", "digest": digest}}}
    assert _environment(_render(values))["FAIRLEAD_MOVER_IMAGE"] == f"registry/mover@{digest}"
    assert f"registry/mover@{digest}" in json.dumps(_policies(values)["fairlead-operator-pods"])


def test_annotations_that_the_operator_writes_are_protected_from_everybody_else() -> None:
    # A network plugin writes the first, an administrator the others, on nodes and volumes.
    others = {names.ANNOTATION_NETWORK_STATUS, names.ANNOTATION_DATA_ADDRESSES, names.ANNOTATION_DISK_NUMA_NODE}
    written = {value for name, value in vars(names).items() if name.startswith("ANNOTATION_")} - others
    (rule,) = _policies()["fairlead-movers"]["validations"]
    (protected,) = re.findall(r"\[([^][]*)\]\.all\(key, variables\.before", rule["expression"])
    assert set(re.findall(r"'([^']+)'", protected)) == written


def test_defaults_are_the_operators_own() -> None:
    images = {"FAIRLEAD_MOVER_IMAGE": f"fairlead-mover:{APP_VERSION}", "FAIRLEAD_ADVISOR_IMAGE": f"fairlead-advisor:{APP_VERSION}"}
    own = {"FAIRLEAD_LEASE": "fairlead-system/fairlead", "FAIRLEAD_IDENTITY": "fairlead-0"}
    assert read_options([], _environment(_render()) | own) == read_options([], images | own)


def _policies(values: dict[str, Any] | None = None) -> dict[str, dict[str, Any]]:
    """The admission policies by name; each is bound to deny."""
    documents = _render(values)
    policies = {policy["metadata"]["name"]: policy["spec"] for policy in _of_kind(documents, "ValidatingAdmissionPolicy")}
    bindings = [binding["spec"] for binding in _of_kind(documents, "ValidatingAdmissionPolicyBinding")]
    assert {binding["policyName"]: binding["validationActions"] for binding in bindings} == {name: ["Deny"] for name in policies}
    return policies


def test_no_namespace_may_use_the_host_network_by_default() -> None:
    policies = _policies()
    assert policies["fairlead-host-network"]["validations"][0]["expression"].endswith("request.namespace in []")
    # Without such a namespace there is none whose other pods would have to be held back.
    assert "fairlead-host-access" not in policies


EVERYWHERE = {"hostNetwork": {"namespaces": ["*"]}, "admissionPolicy": {"exemptNamespaces": ["kube-system"]}}


def test_a_star_lifts_the_rule_about_namespaces_and_keeps_every_other() -> None:
    listed, everywhere = _policies({"hostNetwork": {"namespaces": ["demo"]}}), _policies(EVERYWHERE)
    assert set(listed) - set(everywhere) == {"fairlead-host-network"}
    conditions = {condition["name"]: condition["expression"] for condition in everywhere["fairlead-host-access"]["matchConditions"]}
    assert conditions["in-a-namespace-with-movers"] == '!(request.namespace in ["kube-system","fairlead-system"])'


def test_the_releases_own_pods_keep_their_access_to_the_nodes() -> None:
    # The node guard is one of them.
    conditions = _policies({"hostNetwork": {"namespaces": ["demo", "fairlead-system"]}})["fairlead-host-access"]["matchConditions"]
    assert conditions[0]["expression"] == 'request.namespace in ["demo"]'


def test_policies_can_be_left_to_other_means() -> None:
    assert _policies({"admissionPolicy": {"enabled": False}, "hostNetwork": {"namespaces": ["demo"]}}) == {}


@pytest.mark.parametrize("values", [{}, EVERYTHING, {"tenantNamespaces": ["demo"]}], ids=["defaults", "everything", "namespaced"])
def test_no_role_reads_secrets_and_none_has_a_wildcard(values: dict[str, Any]) -> None:
    documents = _render(values)
    roles = _of_kind(documents, "ClusterRole") + _of_kind(documents, "Role")
    # Tests beside access/test_rights.py use every verb of these; a further role needs one too.
    tested = {"fairlead", "fairlead-tenants", "fairlead-edit", "fairlead-view"}
    (lease,) = (role for role in roles if (role["kind"], role["metadata"]["name"]) == ("Role", "fairlead"))
    assert {verb for rule in lease["rules"] if "resourceNames" not in rule for verb in rule["verbs"]} == {"create"}
    tested |= ON_NODES | {"fairlead-cilium"} if values == EVERYTHING else set()
    assert {role["metadata"]["name"] for role in roles} == tested
    for rule in (rule for role in roles for rule in role["rules"]):
        _assert_strict(rule)
        if "secrets" in rule["resources"]:
            assert set(rule["verbs"]) <= {"create", "delete"}


def _assert_strict(rule: dict[str, Any]) -> None:
    assert not {"*"} & {*rule["apiGroups"], *rule["resources"], *rule["verbs"]}
    assert not any("*" in entry for entry in (*rule["resources"], *rule.get("nonResourceURLs", ())))
    assert not {"escalate", "bind", "impersonate", "proxy"} & set(rule["verbs"])


UNINSTALL_RIGHTS = {("deployments/scale", "patch"), ("pods", "list")}
TEST_RIGHTS = {(resource, verb) for resource in ("transferjobs", "pods", "persistentvolumeclaims") for verb in ("create", "get", "delete")}
TWO_NODES = {"test": {"source": {"node": "dtn-a"}, "destination": {"node": "dtn-b"}}}


@pytest.mark.parametrize(
    ("values", "chooses_nodes"),
    [({}, True), (EVERYTHING, True), ({"tenantNamespaces": ["demo"]}, True), (TWO_NODES, False)],
    ids=["defaults", "everything", "namespaced", "two-nodes"],
)
def test_roles_of_hooks_are_as_strict_and_leave_secrets_alone(values: dict[str, Any], chooses_nodes: bool) -> None:
    documents = _render(values, hooks=True)
    roles = {(role["kind"], role["metadata"]["name"]): role["rules"] for role in documents if role["kind"] in ("ClusterRole", "Role")}
    rights = {
        key: {(resource, verb) for rule in rules for resource in rule["resources"] for verb in rule["verbs"]}
        for key, rules in roles.items()
    }
    assert rights == {
        ("Role", "fairlead-uninstall"): UNINSTALL_RIGHTS,
        ("Role", "fairlead-test"): TEST_RIGHTS,
        **({("ClusterRole", "fairlead-test"): {("datatransfernodes", "list")}} if chooses_nodes else {}),
    }
    for rule in (rule for rules in roles.values() for rule in rules):
        _assert_strict(rule)
    (scaled,) = (rule for rule in roles["Role", "fairlead-uninstall"] if "deployments/scale" in rule["resources"])
    assert scaled["resourceNames"] == ["fairlead"], "it may stop the operator and no other workload"
    accounts = {
        binding["roleRef"]["name"]: [(each["kind"], each["name"], each["namespace"]) for each in binding["subjects"]]
        for binding in documents
        if binding["kind"] in ("ClusterRoleBinding", "RoleBinding")
    }
    assert accounts == {
        "fairlead-uninstall": [("ServiceAccount", "fairlead", "fairlead-system")],
        "fairlead-test": [("ServiceAccount", "fairlead-test", "fairlead-system")],
    }


def test_rights_over_pods_and_secrets_can_be_had_by_namespace() -> None:
    documents = _render({"tenantNamespaces": ["chemistry", "physics"]})
    bound = [(each["metadata"]["namespace"], each["roleRef"]["name"]) for each in _of_kind(documents, "RoleBinding")]
    assert bound == [("fairlead-system", "fairlead"), ("chemistry", "fairlead-tenants"), ("physics", "fairlead-tenants")]
    assert [each["roleRef"]["name"] for each in _of_kind(documents, "ClusterRoleBinding")] == ["fairlead"]
    assert read_options([], _environment(documents)).tenant_namespaces == ("chemistry", "physics")


def test_definitions_survive_an_uninstallation_unless_told_otherwise() -> None:
    kept = _of_kind(_render(), "CustomResourceDefinition")
    assert {definition["metadata"]["annotations"]["helm.sh/resource-policy"] for definition in kept} == {"keep"}
    dropped = _of_kind(_render({"crds": {"keep": False}}), "CustomResourceDefinition")
    assert len(dropped) == len(kept)
    assert all("annotations" not in definition["metadata"] for definition in dropped)
    assert _of_kind(_render({"crds": {"install": False}}), "CustomResourceDefinition") == []


def test_the_definitions_are_the_generated_ones() -> None:
    rendered = {
        definition["metadata"]["name"]: definition
        for definition in _of_kind(_render({"crds": {"keep": False}}), "CustomResourceDefinition")
    }
    for definition in rendered.values():
        del definition["metadata"]["labels"]
    generated = [document for path in sorted((CHECKOUT / "crds").glob("*.yaml")) for document in read_documents(path.read_text())]
    assert rendered == {definition["metadata"]["name"]: definition for definition in generated}


def test_the_operator_runs_once_and_without_rights_on_its_node() -> None:
    (deployment,) = _of_kind(_render(), "Deployment")
    spec = deployment["spec"]
    assert (spec["replicas"], spec["strategy"]["type"]) == (1, "Recreate")
    pod = spec["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    context = pod["containers"][0]["securityContext"]
    assert context == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": True}


def test_several_operators_are_spread_and_one_of_them_may_go() -> None:
    documents = _render({"replicas": 2})
    (deployment,) = _of_kind(documents, "Deployment")
    spec = deployment["spec"]
    assert (spec["replicas"], spec["strategy"]["rollingUpdate"]) == (2, {"maxUnavailable": 1, "maxSurge": 0})
    (spread,) = spec["template"]["spec"]["topologySpreadConstraints"]
    assert spread["labelSelector"]["matchLabels"] == spec["selector"]["matchLabels"]
    (budget,) = _of_kind(documents, "PodDisruptionBudget")
    assert budget["spec"]["maxUnavailable"] == 1
    environment = {variable["name"]: variable for variable in spec["template"]["spec"]["containers"][0]["env"]}
    assert environment["FAIRLEAD_LEASE"]["value"] == f"{deployment['metadata']['namespace']}/fairlead"
    assert environment["FAIRLEAD_IDENTITY"]["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name"


def test_the_guard_is_probed_and_sees_the_nodes_control_groups() -> None:
    (guard,) = _of_kind(_render({"nodeGuard": {"enabled": True, "port": 9999, "cgroups": "/cgroup"}}), "DaemonSet")
    pod = guard["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert [container[probe]["httpGet"]["path"] for probe in ("livenessProbe", "readinessProbe")] == ["/healthz", "/readyz"]
    assert container["ports"] == [{"name": "metrics", "containerPort": 9999}]
    environment = {variable["name"]: variable.get("value") for variable in container["env"]}
    assert environment["FAIRLEAD_GUARD_ADDRESS"] == ":9999"
    (mount,) = (mount for mount in container["volumeMounts"] if mount["mountPath"] == environment["FAIRLEAD_CGROUPS"])
    (volume,) = (volume for volume in pod["volumes"] if volume["name"] == mount["name"])
    assert volume["hostPath"] == {"path": "/cgroup", "type": "Directory"}


def test_the_node_agent_runs_on_labelled_nodes_without_privilege_and_sees_space_alone() -> None:
    documents = _render({"nodeAgent": {"enabled": True, "port": 9900, "storagePaths": ["/data", "/scratch"]}})
    (agent,) = _of_kind(documents, "DaemonSet")
    pod = agent["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"fairlead.io/dtn": "true"}
    assert (pod["hostNetwork"], pod.get("hostPID", False), pod["securityContext"]["runAsNonRoot"]) == (True, False, True)
    (container,) = pod["containers"]
    hardened = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": True}
    assert container["securityContext"] == hardened
    mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"] if mount["mountPath"] != "/tmp"}
    assert all(mount["readOnly"] for mount in mounts.values())
    paths = {volume["name"]: volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume}
    environment = {variable["name"]: variable.get("value", "a") for variable in container["env"]}
    environment["FAIRLEAD_AGENT_ADDRESS"] = environment["FAIRLEAD_AGENT_ADDRESS"].replace("$(FAIRLEAD_HOST)", "192.0.2.1")
    options = read_agent_options([], {**environment, "FAIRLEAD_NODE_ADDRESS": "192.0.2.1"})
    assert {path: str(folder) for path, folder in options.storage.items()} == {paths[mount["name"]]: at for at, mount in mounts.items()}
    assert options.port == container["ports"][0]["containerPort"] == 9900


def test_the_operator_is_told_of_the_agents_and_finds_their_pods() -> None:
    documents = _render({"nodeAgent": {"enabled": True}, "tenantNamespaces": ["demo"]})
    (agent,) = _of_kind(documents, "DaemonSet")
    where = read_options([], _environment(documents)).agents
    assert where is not None
    assert (where.namespace, where.port) == (agent["metadata"]["namespace"], 9811)
    assert where.service_account == agent["spec"]["template"]["spec"]["serviceAccountName"]
    (role,) = (each for each in _of_kind(documents, "Role") if each["metadata"]["name"] == "fairlead-node-agent-pods")
    (binding,) = (each for each in _of_kind(documents, "RoleBinding") if each["metadata"]["name"] == "fairlead-node-agent-pods")
    assert role["metadata"]["namespace"] == binding["metadata"]["namespace"] == where.namespace
    assert role["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "fairlead", "namespace": "fairlead-system"}]
    assert read_options([], _environment(_render())).agents is None


def test_guard_and_agent_share_one_namespace_which_is_made_once() -> None:
    for guard, agent in ((True, True), (False, True), (True, False)):
        documents = _render({"nodeGuard": {"enabled": guard}, "nodeAgent": {"enabled": agent}})
        (namespace,) = _of_kind(documents, "Namespace")
        assert {each["metadata"]["namespace"] for each in _of_kind(documents, "DaemonSet")} == {namespace["metadata"]["name"]}


@pytest.mark.parametrize(("level", "operator_runs", "guard_runs"), [("restricted", True, False), ("privileged", True, True)])
def test_the_operator_needs_no_more_than_the_level_restricted(
    cluster: None, kubectl: Kubectl, level: str, operator_runs: bool, guard_runs: bool
) -> None:
    labels = {"pod-security.kubernetes.io/enforce": level}
    kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"level-{level}", "labels": labels}})
    documents = _render({"nodeGuard": {"enabled": True}})
    for kind, runs in (("Deployment", operator_runs), ("DaemonSet", guard_runs)):
        (workload,) = _of_kind(documents, kind)
        pod = {"apiVersion": "v1", "kind": "Pod", **workload["spec"]["template"]}
        pod["metadata"]["name"] = "probe"
        answer = kubectl("-n", f"level-{level}", "create", "--dry-run=server", "-f", "-", stdin=json.dumps(pod), check=False)
        assert (answer.returncode == 0) is runs, answer.stderr
        assert runs or "violates PodSecurity" in answer.stderr


def test_the_guard_has_a_namespace_of_its_own_which_the_chart_makes() -> None:
    documents = _render({"nodeGuard": {"enabled": True}})
    (namespace,) = _of_kind(documents, "Namespace")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"
    own = namespace["metadata"]["name"]
    assert own == "fairlead-system-guard"
    (guard,) = _of_kind(documents, "DaemonSet")
    assert guard["metadata"]["namespace"] == own
    accounts = {each["metadata"]["name"]: each["metadata"]["namespace"] for each in _of_kind(documents, "ServiceAccount")}
    assert accounts == {"fairlead": "fairlead-system", "fairlead-guard": own}
    subjects = [subject for binding in _of_kind(documents, "ClusterRoleBinding") for subject in binding["subjects"]]
    assert {subject["name"]: subject["namespace"] for subject in subjects} == accounts
    assert _of_kind(_render(), "Namespace") == []
    there = _render({"nodeGuard": {"enabled": True, "namespace": {"name": "guards", "create": False}}})
    assert _of_kind(there, "Namespace") == []
    assert _of_kind(there, "DaemonSet")[0]["metadata"]["namespace"] == "guards"


def test_the_guard_can_be_turned_off_and_on_again(cluster: None, kubectl: Kubectl, admin_kubeconfig: Path) -> None:
    # No controller runs here: a namespace that is deleted stays in deletion, as it does for a while elsewhere.
    values = {"crds": {"install": False}, "admissionPolicy": {"enabled": False}, "rbac": {"aggregate": False}}
    for enabled in (True, False, True):
        _helm(
            *("upgrade", "--install", "toggled", str(CHART), "--namespace", "toggled", "--create-namespace"),
            *("--kubeconfig", str(admin_kubeconfig), "--set", f"nodeGuard.enabled={str(enabled).lower()}"),
            values=values,
        )
        daemon_sets = kubectl("-n", "toggled-guard", "get", "daemonsets", "-o", "name").stdout.split()
        assert len(daemon_sets) == enabled


DEFINITION = "crd/transferjobs.fairlead.io"
OWNED = {"meta.helm.sh/release-name": "unkept", "meta.helm.sh/release-namespace": "unkept"}


def test_an_upgrade_that_would_delete_the_definitions_is_refused(cluster: None, kubectl: Kubectl, admin_kubeconfig: Path) -> None:
    values = {"crds": {"install": False}, "admissionPolicy": {"enabled": False}, "rbac": {"aggregate": False}}

    def upgrade(*more: str) -> subprocess.CompletedProcess[str]:
        where = ("--namespace", "unkept", "--create-namespace", "--kubeconfig", str(admin_kubeconfig))
        return _helm("upgrade", "--install", "unkept", str(CHART), *where, *more, values=values, check=False)

    def annotate(**annotations: str | None) -> None:
        words = (f"{key}-" if value is None else f"{key}={value}" for key, value in annotations.items())
        kubectl("annotate", "--overwrite", DEFINITION, *words)

    # The release has no definitions: whatever Helm is asked for here, the other tests keep them.
    assert upgrade().returncode == 0
    try:
        annotate(**OWNED, **{"helm.sh/resource-policy": None})
        refused = upgrade("--dry-run=server")
        assert refused.returncode != 0
        assert "upgrade with crds.install=true and crds.keep=true first" in refused.stderr
        annotate(**{"helm.sh/resource-policy": "keep"})
        assert upgrade("--dry-run=server").returncode == 0
        annotate(**{"meta.helm.sh/release-namespace": "other", "helm.sh/resource-policy": None})
        assert upgrade("--dry-run=server").returncode == 0, "they are another release's"
    finally:
        annotate(**dict.fromkeys(OWNED), **{"helm.sh/resource-policy": "keep"})


def test_a_second_release_is_refused_by_the_name_of_the_first(cluster: None, kubectl: Kubectl, admin_kubeconfig: Path) -> None:
    (policy, *_) = _of_kind(_render(), "ValidatingAdmissionPolicy")
    # A policy that nothing binds.
    policy["metadata"] = {
        "name": "of-the-first-release",
        "labels": policy["metadata"]["labels"],
        "annotations": {"meta.helm.sh/release-name": "first", "meta.helm.sh/release-namespace": "elsewhere"},
    }
    where = ("--dry-run=server", "--create-namespace", "--kubeconfig", str(admin_kubeconfig))
    # With the definitions Helm itself refuses a second release.
    values = {"crds": {"install": False}, "fullnameOverride": "second", "rbac": {"aggregate": False}}
    kubectl.apply(policy)
    try:
        second = _helm("install", "second", str(CHART), "--namespace", "second", *where, values=values, check=False)
        assert second.returncode != 0
        assert "release first in namespace elsewhere" in second.stderr
        assert _helm("install", "first", str(CHART), "--namespace", "elsewhere", *where, values=values).returncode == 0
    finally:
        kubectl("delete", "validatingadmissionpolicy", "of-the-first-release")


def test_the_guards_monitor_selects_pods_where_the_guard_runs() -> None:
    for namespace in ({}, {"name": "guards", "create": False}):
        documents = _render({"nodeGuard": {"enabled": True, "namespace": namespace}, "podMonitor": {"enabled": True}})
        (monitor,) = (each["spec"] for each in _of_kind(documents, "PodMonitor") if each["metadata"]["name"] == "fairlead-guard")
        (guard,) = _of_kind(documents, "DaemonSet")
        assert monitor["namespaceSelector"] == {"matchNames": [guard["metadata"]["namespace"]]}
        assert monitor["selector"] == guard["spec"]["selector"]


def test_priority_classes_are_for_the_charts_pods_and_for_movers_on_demand() -> None:
    documents = _render({"nodeGuard": {"enabled": True}})
    assert [each["metadata"]["name"] for each in _of_kind(documents, "PriorityClass")] == ["fairlead-guard", "fairlead-operator"]
    for kind, name in (("Deployment", "fairlead-operator"), ("DaemonSet", "fairlead-guard")):
        assert _of_kind(documents, kind)[0]["spec"]["template"]["spec"]["priorityClassName"] == name
    with_movers = _render({"priorityClasses": {"movers": -5}})
    (movers,) = (each for each in _of_kind(with_movers, "PriorityClass") if each["metadata"]["name"] == "fairlead-movers")
    assert (movers["value"], movers["preemptionPolicy"]) == (-5, "Never")
    assert read_options([], _environment(with_movers)).template.priority_class == "fairlead-movers"
    none = _render({"priorityClasses": {"create": False, "movers": 1}})
    assert _of_kind(none, "PriorityClass") == []
    assert "priorityClassName" not in _of_kind(none, "Deployment")[0]["spec"]["template"]["spec"]
    given = _render({"priorityClasses": {"create": False}, "priorityClassName": "critical", "nodeGuard": {"enabled": True}})
    for kind in ("Deployment", "DaemonSet"):
        assert _of_kind(given, kind)[0]["spec"]["template"]["spec"]["priorityClassName"] == "critical"


def test_network_policies_cover_the_operator_and_movers_of_listed_namespaces() -> None:
    (operator,) = _of_kind(_render(), "NetworkPolicy")
    assert operator["spec"]["ingress"] == [{"ports": [{"port": "metrics", "protocol": "TCP"}]}]
    monitoring = {"namespaceSelector": {"matchLabels": {"team": "monitoring"}}}
    values = {"tenantNamespaces": ["demo"], "networkPolicy": {"metricsFrom": [monitoring], "dataFrom": ["198.18.0.0/15"]}}
    documents = _render(values)
    (operator, movers) = _of_kind(documents, "NetworkPolicy")
    assert operator["spec"]["ingress"][0]["from"] == [monitoring]
    assert movers["metadata"]["namespace"] == "demo"
    data, questions = movers["spec"]["ingress"]
    assert data["from"][1] == {"ipBlock": {"cidr": "198.18.0.0/15"}}
    assert [(port["port"], port["protocol"]) for port in data["ports"]] == [(24000, "TCP"), (24000, "UDP")]
    assert [port["port"] for port in questions["ports"]] == [24000 + OFFSETS[PORT_HTTP], 24000 + OFFSETS[PORT_ADVISOR]]
    (deployment,) = _of_kind(documents, "Deployment")
    assert questions["from"][0]["podSelector"]["matchLabels"] == deployment["spec"]["selector"]["matchLabels"]
    assert questions["from"][1] == monitoring
    assert _of_kind(_render({"networkPolicy": {"enabled": False}}), "NetworkPolicy") == []


@pytest.mark.parametrize(("said", "given"), [("auto", "auto"), ("on", "on"), ("off", "off"), (True, "on"), (False, "off")])
def test_on_and_off_may_be_the_booleans_that_yaml_makes_of_them(said: object, given: str) -> None:
    documents = _render({"cilium": {"bandwidthManager": said}})
    assert _environment(documents)["FAIRLEAD_CILIUM_BANDWIDTH_MANAGER"] == given
    roles = {role["metadata"]["name"] for role in _of_kind(documents, "Role")}
    assert roles == {"fairlead"} | ({"fairlead-cilium"} if given == "auto" else set())


def test_there_is_no_guard_on_the_nodes_unless_asked_for() -> None:
    assert _of_kind(_render(), "DaemonSet") == []


def test_the_guard_is_on_tainted_nodes_too_unless_somebody_says_otherwise() -> None:
    for tolerations, expected in (({}, [{"operator": "Exists"}]), ({"tolerations": []}, None)):
        (guard,) = _of_kind(_render({"nodeGuard": {"enabled": True, **tolerations}}), "DaemonSet")
        assert guard["spec"]["template"]["spec"].get("tolerations") == expected


def test_the_guard_may_hold_what_pods_send_and_read_pods_and_their_caps_and_nothing_else() -> None:
    documents = _render({**EVERYTHING, "nodeAgent": {"enabled": False}})
    (guard,) = _of_kind(documents, "DaemonSet")
    pod = guard["spec"]["template"]["spec"]
    assert pod["hostNetwork"] is True
    (container,) = pod["containers"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["NET_ADMIN", "BPF"]}
    role = next(document for document in _of_kind(documents, "ClusterRole") if document["metadata"]["name"] == pod["serviceAccountName"])
    pods = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}
    assert role["rules"] == [pods, {"apiGroups": ["fairlead.io"], "resources": ["transferjobs"], "verbs": ["watch"]}]
    (deployment,) = _of_kind(documents, "Deployment")
    own, operators = (document["spec"]["selector"]["matchLabels"] for document in (guard, deployment))
    assert own != operators, "each would count the other's pods as its own"


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"hostnetwork": {}}, "hostnetwork"),
        ({"hostNetwork": {"namespaces": ["Not_A_Name"]}}, "/hostNetwork/namespaces/0"),
        ({"ports": {"first": 80}}, "/ports/first"),
        ({"ports": {"first": 25000, "last": 25003}}, "at least 8 ports"),
        ({"images": {"mover": {"pullPolicy": "Sometimes"}}}, "/images/mover/pullPolicy"),
        ({"workers": 0}, "/workers"),
        ({"advisor": {"probeSeconds": 0}}, "/advisor/probeSeconds"),
        ({"movers": {"resources": {"request": {}}}}, "request"),
        ({"movers": {"wholeCpus": 1.5}}, "/movers/wholeCpus"),
        ({"log": {"level": "loud"}}, "/log/level"),
        ({"images": {"mover": {"digest": "sha256:12"}}}, "/images/mover/digest"),
        ({"networkPolicy": {"dataFrom": ["anywhere"]}}, "/networkPolicy/dataFrom/0"),
        ({"networkPolicy": {"metricsFrom": [{}]}}, "/networkPolicy/metricsFrom/0"),
        ({"priorityClasses": {"operator": 2000000000}}, "/priorityClasses/operator"),
        ({"nodeGuard": {"namespace": {"name": "A"}}}, "/nodeGuard/namespace/name"),
        ({"tenantNamespaces": ["a"], "hostNetwork": {"namespaces": ["b"]}}, "hostNetwork.namespaces has b"),
        ({"identities": {"default": {"users": ["a-b"]}}}, "/identities/default/users/0"),
        ({"identities": {"default": {"users": ["0-9"]}}}, "never run as root"),
        ({"identities": {"namespaces": {"physics": {"groups": ["9-1"]}}}}, "must rise"),
        ({"identities": {"namespaces": {"physics": {"users": ["10-19"], "defaultUser": 5}}}}, "defaultUser 5"),
        ({"identities": {"namespaces": {"physics": {"user": []}}}}, "user"),
        ({"hostNetwork": {"namespaces": ["*"]}}, "admissionPolicy.exemptNamespaces"),
        (
            {"serviceMonitor": {"enabled": True}, "metrics": {"service": {"enabled": False}}},
            "serviceMonitor.enabled is true and metrics.service.enabled is false",
        ),
    ],
)
def test_a_value_that_cannot_work_is_refused_by_name(values: dict[str, Any], named: str) -> None:
    answer = _helm("template", "fairlead", str(CHART), "--kube-version", "1.34.0", values=values, check=False)
    assert answer.returncode != 0
    assert named in answer.stderr


def test_the_job_in_the_notes_is_accepted_word_for_word(cluster: None, kubectl: Kubectl, admin_kubeconfig: Path) -> None:
    namespace = NAMESPACES[-1]
    answer = _helm(
        *("install", "notes", str(CHART), "--namespace", namespace, "--dry-run=client", "--kubeconfig", str(admin_kubeconfig)),
        values={"hostNetwork": {"namespaces": [namespace]}, "crds": {"install": False}},
    )
    notes = answer.stdout.partition("NOTES:")[2]
    job = notes.partition("<<EOF\n")[2].partition("EOF")[0]
    kubectl("create", "namespace", namespace)
    created = kubectl("create", "--dry-run=server", "--validate=strict", "-o", "name", "-f", "-", stdin=_dedent(job))
    assert created.stdout.strip() == "transferjob.fairlead.io/first"


def _dedent(text: str) -> str:
    return "\n".join(line.removeprefix("  ") for line in text.splitlines())
