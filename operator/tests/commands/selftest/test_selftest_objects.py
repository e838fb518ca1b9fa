"""What the self-test creates."""

from __future__ import annotations

from fairlead.commands.selftest.objects import SelftestEnd, SelftestPlan, file_pod

PLAN = SelftestPlan(
    token="abc",
    namespace="demo",
    source=SelftestEnd("ip-10-0-0-1.ec2.internal", "raw"),
    destination=SelftestEnd("dtn-b", "scratch"),
    network="Host",
    storage_class="",
    image="fairlead-operator:test",
    pull_policy="IfNotPresent",
    pull_secrets=(),
    user=65532,
    group=65532,
    tolerations=(),
    bytes_total=1000,
    timeout_seconds=300,
)


def test_a_pod_runs_on_its_node_also_where_the_label_with_the_hosts_name_is_another() -> None:
    spec = file_pod(PLAN, PLAN.source, "write")["spec"]
    (term,) = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["ip-10-0-0-1.ec2.internal"]}]}
    assert "nodeSelector" not in spec
