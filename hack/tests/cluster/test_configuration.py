"""What is handed to the Kubernetes programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairlead_dev.cluster import layout
from fairlead_dev.cluster.cleanup import OWNER_FILE, Cleanup
from fairlead_dev.cluster.kubernetes import addons, kueue, monitoring, multus, node_config, pki
from fairlead_dev.cluster.layout import NODES, Layout
from fairlead_dev.errors import CommandUsageError

PATHS = Layout(Path("/checkout"), Path("/cache"), Path("/state"), Path("/target"))
GIB = 1 << 30


def yaml_after_note(text: str) -> dict[str, object]:
    note, _, body = text.partition("\n")
    assert note.startswith("#"), "a file that begins with a brace would be read as strict JSON"
    loaded: dict[str, object] = json.loads(body)
    return loaded


def test_three_nodes_together_offer_no_more_memory_than_the_machine_has() -> None:
    kubelet = yaml_after_note(node_config.kubelet(NODES[0], PATHS, Path("/r"), machine_memory_bytes=24 * GIB))
    assert kubelet["kubeReserved"] == {"memory": f"{16 * 1024}Mi"}


def test_each_kubelet_keeps_its_pods_in_its_own_control_group() -> None:
    roots = {str(yaml_after_note(node_config.kubelet(node, PATHS, Path("/r"), machine_memory_bytes=GIB))["cgroupRoot"]) for node in NODES}
    assert roots == {"/fairlead-mgmt", "/fairlead-dtn-a", "/fairlead-dtn-b"}


def test_prometheus_takes_monitors_and_rules_of_every_namespace_and_runs_where_its_images_are() -> None:
    spec = next(each for each in monitoring.objects() if each["kind"] == "Prometheus")["spec"]
    for what in ("podMonitor", "serviceMonitor", "rule"):
        assert spec[f"{what}Selector"] == spec[f"{what}NamespaceSelector"] == {}, f"{what}: a missing selector takes none"
    assert spec["nodeSelector"] == {"kubernetes.io/hostname": monitoring.NODE}
    assert (spec["version"], layout.PROMETHEUS_VERSION) == ("v3.12.0", "v0.312.0")


RENDERED = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: kueue-controller-manager}
spec: {template: {spec: {containers: [{name: manager, command: [/manager]}]}}}
---
---
kind: ValidatingWebhookConfiguration
metadata: {name: refuses}
---
kind: CustomResourceDefinition
metadata: {name: workloads.kueue.x-k8s.io}
"""


def test_kueues_namespace_and_definitions_come_first_and_what_calls_it_goes_first() -> None:
    bodies = kueue.objects(RENDERED)
    assert [body["kind"] for body in bodies] == ["Namespace", "CustomResourceDefinition", "Deployment", "ValidatingWebhookConfiguration"]
    assert kueue.in_order_of_removal(bodies)[0]["kind"] == "ValidatingWebhookConfiguration"


def test_kueue_runs_from_the_image_of_its_program_where_that_is() -> None:
    (deployment,) = (body for body in kueue.objects(RENDERED) if body["kind"] == "Deployment")
    assert deployment["spec"]["template"]["spec"]["containers"][0]["command"] == ["/program"]
    manager = kueue.values()["controllerManager"]
    image = manager["manager"]["image"]
    assert (f"{image['repository']}:{image['tag']}", image["pullPolicy"]) == (f"localhost/kueue:{layout.KUEUE_VERSION}", "Never")
    assert manager["nodeSelector"] == {"kubernetes.io/hostname": kueue.NODE}


def test_services_are_translated_by_nftables() -> None:
    assert yaml_after_note(node_config.kube_proxy(PATHS))["mode"] == "nftables"


def test_the_pod_network_of_a_node_is_its_pod_cidr() -> None:
    for node in NODES:
        bridge = json.loads(node_config.cni(node))["plugins"][0]
        assert bridge["ipam"]["ranges"] == [[{"subnet": str(node.pod_cidr)}]]
        assert (node_config.node_object(node)["apiVersion"], node_config.node_object(node)["kind"]) == ("v1", "Node")
        assert node_config.node_object(node)["spec"]["podCIDR"] == str(node.pod_cidr)


def test_the_api_server_is_valid_under_every_name_it_is_called_by() -> None:
    names = next(certificate for certificate in pki.certificates() if certificate.name == "apiserver").alternative_names.split(",")
    assert {"IP:198.18.0.1", "IP:127.0.0.1", "IP:198.18.128.1", "DNS:kubernetes.default.svc.cluster.local"} <= set(names)


def test_each_kubelet_is_known_by_its_name_and_address() -> None:
    kubelets = {certificate.name: certificate for certificate in pki.certificates() if certificate.name.startswith("kubelet-")}
    assert len(kubelets) == len(NODES)
    assert kubelets["kubelet-dtn-a"].subject == "/O=system:nodes/CN=system:node:dtn-a"
    assert kubelets["kubelet-dtn-a"].alternative_names == "DNS:dtn-a,IP:198.18.0.11"


def test_the_name_service_listens_where_kubelets_point_pods_to() -> None:
    service = next(item for item in addons.objects() if item["kind"] == "Service")
    kubelet = yaml_after_note(node_config.kubelet(NODES[0], PATHS, Path("/r"), machine_memory_bytes=GIB))
    assert kubelet["clusterDNS"] == [service["spec"]["clusterIP"]] == [str(layout.DNS_SERVICE_ADDRESS)]


def test_local_volumes_are_bound_where_their_pod_runs() -> None:
    storage = next(item for item in addons.objects() if item["kind"] == "StorageClass")
    assert storage["metadata"]["name"] == "fairlead-local"
    assert storage["volumeBindingMode"] == "WaitForFirstConsumer"


def layout_with_state(state: Path) -> Layout:
    return Layout(Path("/checkout"), state.parent / "cache", state, Path("/target"))


def test_a_folder_with_someone_elses_files_is_never_taken_as_state(tmp_path: Path) -> None:
    state = tmp_path / "documents"
    state.mkdir()
    (state / "thesis.tex").write_text("years of work")
    with pytest.raises(CommandUsageError, match="FAIRLEAD_STATE"):
        Cleanup(layout_with_state(state)).claim_state()
    with pytest.raises(CommandUsageError, match="FAIRLEAD_STATE"):
        Cleanup(layout_with_state(state)).remove_all()
    assert (state / "thesis.tex").read_text() == "years of work"


def test_an_empty_or_owned_state_folder_is_taken(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    for _ in range(2):
        Cleanup(layout_with_state(state)).claim_state()
    assert (state / OWNER_FILE).exists()


def test_multus_gives_every_pod_the_pod_network_first_and_definitions_of_its_own_namespace_alone() -> None:
    node = layout.TRANSFER_NODES[0]
    config = json.loads(multus.configuration(node, PATHS))
    assert config["delegates"] == [json.loads(node_config.cni(node))]
    assert config["namespaceIsolation"] is True
    # Containerd takes the first file by name.
    assert multus.CONFIGURATION_FILE < "10-fairlead.conflist"


def test_multus_may_read_definitions_and_annotate_pods_as_the_client_of_its_kubeconfig() -> None:
    role, binding = (item for item in multus.objects() if item["kind"].startswith("ClusterRole"))
    client = next(certificate for certificate in pki.certificates() if certificate.name == "multus")
    assert client.subject == f"/CN={binding['subjects'][0]['name']}"
    definitions = next(rule for rule in role["rules"] if "k8s.cni.cncf.io" in rule["apiGroups"])
    assert definitions["verbs"] == ["get", "list", "watch"]
