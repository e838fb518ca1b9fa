from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from fairlead.handlers.options import CiliumOptions, ListenAddress, OptionError, read_options
from fairlead.kube.objects.template import WholeCpus
from fairlead.kube.observe.agents import AgentPlace

IMAGES = {"FAIRLEAD_MOVER_IMAGE": "mover:1", "FAIRLEAD_ADVISOR_IMAGE": "advisor:1"}


def test_images_suffice() -> None:
    options = read_options([], IMAGES)
    assert options.template.mover.reference == "mover:1"
    assert options.template.mover.pull_policy == "IfNotPresent"
    assert options.settings.host_network_namespaces == frozenset()
    assert (options.settings.ports.first, options.settings.ports.last) == (24000, 25999)
    assert options.kubeconfig is None
    assert options.agents is None
    assert options.cilium.bandwidth_manager == "off"


def test_reads_everything_from_the_environment() -> None:
    options = read_options(
        [],
        IMAGES
        | {
            "FAIRLEAD_HOST_NETWORK_NAMESPACES": "demo, physics",
            "FAIRLEAD_IDENTITIES": '{"namespaces": {"physics": {"users": ["10000-10999"], "defaultUser": 10000}}}',
            "FAIRLEAD_PORTS": "30000-30099",
            "FAIRLEAD_MOVER_RESOURCES": '{"limits":{"memory":"2Gi"}}',
            "FAIRLEAD_MOVER_WHOLE_CPUS": "4",
            "FAIRLEAD_MOVER_TOLERATIONS": '[{"key":"dtn","operator":"Exists"}]',
            "FAIRLEAD_MOVER_PRIORITY_CLASS": "bulk",
            "FAIRLEAD_IMAGE_PULL_SECRETS": "one,two",
            "FAIRLEAD_POLL_INTERVAL_SECONDS": "0.5",
            "FAIRLEAD_PROBE_SECONDS": "4",
            "FAIRLEAD_METRICS_ADDRESS": "[::]:9999",
            "FAIRLEAD_KUBECONFIG": "somewhere/config",
            "FAIRLEAD_NODE_AGENT_NAMESPACE": "agents",
            "FAIRLEAD_NODE_AGENT_PORT": "9000",
            "FAIRLEAD_CILIUM_BANDWIDTH_MANAGER": "auto",
            "FAIRLEAD_CILIUM_CONFIG": "network/settings",
        },
    )
    assert options.settings.host_network_namespaces == {"demo", "physics"}
    assert options.settings.allows_host_network("physics")
    assert options.settings.identities.of("physics").default_user == 10000
    assert options.template.identities == options.settings.identities
    assert (options.settings.ports.first, options.settings.ports.last) == (30000, 30099)
    assert options.template.mover_resources == {"limits": {"memory": "2Gi"}}
    assert options.template.whole_cpus == WholeCpus(4)
    assert options.template.tolerations == ({"key": "dtn", "operator": "Exists"},)
    assert options.template.priority_class == "bulk"
    assert options.template.image_pull_secrets == ("one", "two")
    assert options.template.probe_seconds == 4
    assert options.settings.poll_interval == timedelta(seconds=0.5)
    assert options.metrics == ListenAddress("::", 9999)
    assert options.kubeconfig == Path("somewhere/config")
    assert options.agents == AgentPlace("agents", "fairlead-node-agent", 9000)
    assert options.cilium == CiliumOptions("auto", "network", "settings")


@pytest.mark.parametrize(("startup", "patience"), [("120", 330), ("600", 1290), ("0.5", 91)])
def test_a_receiver_waits_for_its_sender_as_long_as_that_may_take_to_start(startup: str, patience: int) -> None:
    assert read_options(["--startup-timeout-seconds", startup], IMAGES).template.peer_timeout_seconds == patience


def test_probes_and_metrics_are_served_on_every_address() -> None:
    options = read_options([], IMAGES)
    assert (options.metrics, options.health) == (ListenAddress("", 9090), ListenAddress("", 8080))


def test_the_command_line_wins_over_the_environment() -> None:
    assert read_options(["--workers=3"], IMAGES | {"FAIRLEAD_WORKERS": "9"}).workers == 3


def test_an_empty_variable_is_an_absent_one() -> None:
    assert read_options([], IMAGES | {"FAIRLEAD_WORKERS": "", "FAIRLEAD_MOVER_TOLERATIONS": ""}).workers == 64


@pytest.mark.parametrize(
    ("variable", "value", "remedy"),
    [
        ("FAIRLEAD_MOVER_IMAGE", "", "full reference"),
        ("FAIRLEAD_PORTS", "24000", "first-last"),
        ("FAIRLEAD_PORTS", "25000-24000", "at least 8 ports"),
        ("FAIRLEAD_PORTS", "80-90", "between 1024 and 65535"),
        ("FAIRLEAD_PORTS", "60000-70000", "between 1024 and 65535"),
        ("FAIRLEAD_CILIUM_BANDWIDTH_MANAGER", "yes", "auto, on, off"),
        ("FAIRLEAD_CILIUM_CONFIG", "cilium-config", "kube-system/cilium-config"),
        ("FAIRLEAD_IDENTITIES", "{", "Expecting"),
        ("FAIRLEAD_IDENTITIES", "[]", "an object in JSON"),
        ("FAIRLEAD_IDENTITIES", '{"default": {"users": ["0-9"]}}', "never run as root"),
        ("FAIRLEAD_WORKERS", "0", "from 1 to 1024"),
        ("FAIRLEAD_WORKERS", "many", "from 1 to 1024"),
        ("FAIRLEAD_RESYNC_SECONDS", "-1", "above 0"),
        ("FAIRLEAD_RESYNC_SECONDS", "nan", "above 0"),
        ("FAIRLEAD_STARTUP_TIMEOUT_SECONDS", "soon", "above 0"),
        ("FAIRLEAD_MOVER_PULL_POLICY", "Sometimes", "Always, IfNotPresent, Never"),
        ("FAIRLEAD_MOVER_RESOURCES", "{", "an object in JSON"),
        ("FAIRLEAD_MOVER_RESOURCES", "[]", "an object in JSON"),
        ("FAIRLEAD_MOVER_WHOLE_CPUS", "0.5", "a whole number"),
        ("FAIRLEAD_MOVER_TOLERATIONS", '["a"]', "a list of objects in JSON"),
        ("FAIRLEAD_METRICS_ADDRESS", "9090", "an address and a port"),
        ("FAIRLEAD_HEALTH_ADDRESS", "0.0.0.0:99999", "an address and a port"),
        ("FAIRLEAD_LOG_FORMAT", "xml", "json, plain"),
        ("FAIRLEAD_NODE_AGENT_PORT", "0", "a port from 1 to 65535"),
    ],
)
def test_a_wrong_value_is_refused_with_its_name_and_a_remedy(variable: str, value: str, remedy: str) -> None:
    with pytest.raises(OptionError) as refusal:
        read_options([], IMAGES | {variable: value})
    assert variable in str(refusal.value)
    assert remedy in str(refusal.value)


@pytest.mark.parametrize("container", ["MOVER", "ADVISOR"])
def test_whole_cpus_without_a_limit_of_memory_are_refused_with_the_container(container: str) -> None:
    variable = f"FAIRLEAD_{container}_RESOURCES"
    with pytest.raises(OptionError, match=variable) as refusal:
        read_options([], IMAGES | {"FAIRLEAD_MOVER_WHOLE_CPUS": "2", variable: '{"requests": {"cpu": "1"}}'})
    assert "limits.memory" in str(refusal.value)


@pytest.mark.parametrize(
    ("resources", "whole", "expected"),
    [
        ('{"limits": {"memory": "2Gi"}}', "0", None),
        ('{"limits": {"memory": "2Gi", "cpu": "1500m"}}', "0", 1.5),
        ('{"limits": {"memory": "2Gi", "cpu": 2}}', "0", 2.0),
        ('{"limits": {"memory": "2Gi"}}', "4", 4.0),
        ('{"limits": {"cpu": "some"}}', "0", None),
        ('{"requests": {"cpu": "2"}}', "0", None),
    ],
)
def test_a_mover_has_the_processors_that_its_limit_names(resources: str, whole: str, expected: float | None) -> None:
    options = read_options([], IMAGES | {"FAIRLEAD_MOVER_RESOURCES": resources, "FAIRLEAD_MOVER_WHOLE_CPUS": whole})
    assert options.settings.mover_cpus == expected
