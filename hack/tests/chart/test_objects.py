"""What holds for every object that the chart makes, whichever template it comes from and whatever the values."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest

from fairlead_dev.chart import schemas
from fairlead_dev.chart.__main__ import validate
from fairlead_dev.chart.render import CHART, VALUE_SETS, manifests, objects

HOOK_DELETION = "helm.sh/hook-delete-policy"
RECOMMENDED = {f"app.kubernetes.io/{name}" for name in ("name", "instance", "version", "part-of", "managed-by")} | {"helm.sh/chart"}
"""https://kubernetes.io/docs/concepts/overview/working-with-objects/common-labels/ and Helm's own."""


@pytest.fixture(scope="module", params=sorted(VALUE_SETS))
def made(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    return objects(VALUE_SETS[request.param])


def test_every_object_and_pod_has_the_recommended_labels(made: list[dict[str, Any]]) -> None:
    without = [
        f"{each['kind']} {each['metadata']['name']}: {', '.join(sorted(missing))}"
        for each in made
        if (missing := RECOMMENDED - set(each["metadata"].get("labels") or {}))
    ]
    assert without == []
    for each in made:
        template = each.get("spec", {}).get("template", {}) if each["kind"] in ("Deployment", "DaemonSet", "Job") else {}
        assert not template or set(template["metadata"]["labels"]) >= RECOMMENDED
        selector = each["spec"].get("selector", {}).get("matchLabels", {}) if each["kind"] in ("Deployment", "DaemonSet") else {}
        assert not set(selector) & {"app.kubernetes.io/version", "helm.sh/chart"}, "it changes with an upgrade, and a selector cannot"


def test_no_container_runs_as_root_without_a_reason_or_keeps_capabilities(made: list[dict[str, Any]]) -> None:
    for each in made:
        if each["kind"] not in ("Deployment", "DaemonSet", "Job"):
            continue
        for container in each["spec"]["template"]["spec"]["containers"]:
            security = container["securityContext"]
            assert security["capabilities"]["drop"] == ["ALL"] and security["readOnlyRootFilesystem"] is True, each["metadata"]["name"]
            assert container["resources"]["requests"], each["metadata"]["name"]


def test_no_container_with_probes_is_told_to_listen_on_addresses_of_ipv4_alone(made: list[dict[str, Any]]) -> None:
    for each in made:
        if each["kind"] not in ("Deployment", "DaemonSet"):
            continue
        for container in each["spec"]["template"]["spec"]["containers"]:
            told = [*container.get("args", ()), *(str(entry.get("value", "")) for entry in container.get("env", ()))]
            assert "httpGet" in container["livenessProbe"]
            assert not [text for text in told if text.startswith("0.0.0.0") or "=0.0.0.0" in text], each["metadata"]["name"]


def test_what_loads_programs_into_the_kernel_may_do_so_under_selinux(made: list[dict[str, Any]]) -> None:
    for each in made:
        if each["kind"] not in ("Deployment", "DaemonSet"):
            continue
        for container in each["spec"]["template"]["spec"]["containers"]:
            security = container["securityContext"]
            loads = "BPF" in security["capabilities"].get("add", ())
            assert security.get("seLinuxOptions") == ({"type": "spc_t"} if loads else None), each["metadata"]["name"]


def test_a_file_system_that_is_mounted_on_a_node_later_is_seen_by_its_agent(made: list[dict[str, Any]]) -> None:
    for each in (each for each in made if each["kind"] == "DaemonSet"):
        mounts = [mount for container in each["spec"]["template"]["spec"]["containers"] for mount in container["volumeMounts"]]
        storage = [mount for mount in mounts if mount["mountPath"].startswith("/host/storage/")]
        assert {mount.get("mountPropagation") for mount in storage} <= {"HostToContainer"}, each["metadata"]["name"]


def test_names_are_unique_within_their_kind(made: list[dict[str, Any]]) -> None:
    identities = [(each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]) for each in made]
    assert len(identities) == len(set(identities))


def test_every_template_is_rendered_by_some_set_of_values() -> None:
    rendered = {each for values in VALUE_SETS.values() for each in _sources(values)}
    assert rendered == {path.name for path in (CHART / "templates").glob("**/*.yaml")}


def _sources(values: Path) -> set[str]:
    return {line.rpartition("/")[2] for line in manifests(values).splitlines() if line.startswith("# Source: ")}


def test_of_helms_test_only_the_pod_whose_log_is_read_outlives_success() -> None:
    annotations = [(each["kind"], each["metadata"].get("annotations", {})) for each in objects({})]
    kept = {kind for kind, named in annotations if named.get("helm.sh/hook") == "test" and "succeeded" not in named[HOOK_DELETION]}
    assert kept == {"Pod"}, "`helm test --logs` reads the log after it has deleted what succeeded"


def test_a_drain_does_not_wait_for_the_operator() -> None:
    (budget,) = (each for each in objects({}) if each["kind"] == "PodDisruptionBudget")
    assert budget["spec"]["maxUnavailable"] == 1
    (operator,) = (each for each in objects({}) if each["kind"] == "Deployment")
    assert budget["spec"]["selector"] == operator["spec"]["selector"]


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        ("{apiVersion: v1, kind: ServiceAccount, metadata: {name: a}}", ""),
        ("{apiVersion: v1, kind: ServiceAccount, metadata: {name: a}, secret: []}", "secret"),
        ("{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: a}, spec: {maxUnavailable: [1]}}", "maxUnavailable"),
        (
            "{apiVersion: monitoring.coreos.com/v1, kind: PodMonitor, metadata: {name: a}, spec: {selector: {}, podMetricEndpoints: []}}",
            "podMetric",
        ),
        ("{apiVersion: fairlead.io/v1alpha1, kind: TransferJob, metadata: {name: a}, spec: {}}", "source"),
        ("{apiVersion: example.org/v1, kind: Unknown, metadata: {name: a}}", "could not find schema"),
    ],
)
def test_kubeconform_refuses_what_an_api_server_would(manifest: str, said: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        answer = validate(manifest, schemas.write_files(Path(folder)))
    assert said in answer if said else answer == ""


@pytest.mark.parametrize(
    ("address", "annotations"),
    [
        ("", {"runbook": "docs/runbooks/FairleadOperatorDown.md in the sources of Fairlead"}),
        ("https://x.example/books/", {"runbook_url": "https://x.example/books/FairleadOperatorDown"}),
        ("https://x.example/$1/ALERT.md", {"runbook_url": "https://x.example/$1/FairleadOperatorDown.md"}),
    ],
)
def test_an_alert_links_to_its_runbook_only_where_an_administrator_has_put_it(address: str, annotations: dict[str, str]) -> None:
    made = objects({"prometheusRule": {"enabled": True, "runbooks": address}})
    (rules,) = (each for each in made if each["kind"] == "PrometheusRule")
    (down,) = (rule for group in rules["spec"]["groups"] for rule in group["rules"] if rule.get("alert") == "FairleadOperatorDown")
    assert {name: text for name, text in down["annotations"].items() if name != "summary"} == annotations


@pytest.mark.parametrize(("resync_seconds", "age_seconds"), [(300, 1800), (0.5, 902), (3600, 11700), (604800, 1815300)])
def test_an_operator_is_stuck_only_after_several_of_the_lists_that_it_was_told_to_make(resync_seconds: float, age_seconds: int) -> None:
    made = objects({"prometheusRule": {"enabled": True}, "resyncSeconds": resync_seconds})
    (rules,) = (each for each in made if each["kind"] == "PrometheusRule")
    (stuck,) = (rule for group in rules["spec"]["groups"] for rule in group["rules"] if rule.get("alert") == "FairleadOperatorStuck")
    assert stuck["expr"].endswith(f"last_list_timestamp_seconds > {age_seconds}")
