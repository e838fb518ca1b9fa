"""What a tenant or a stolen account asks of the API server, and the admission policies refuse."""

from __future__ import annotations

from e2e.attacks.lib.judge import Judge, gains
from e2e.attacks.lib.victim import Site


@gains("enters the network of the node, and speaks for the mover")
async def attack_exec_into_a_mover(site: Site, judge: Judge) -> None:
    """A tenant opens a shell in the receiver of their own job."""
    async with site.operator():
        await site.create_job()
        receiver = await site.appears("receiver")
    answer = site.as_tenant("exec", receiver["metadata"]["name"], "--", "sh")
    judge(answer.refused_by_policy, str(answer))
    plain = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "plain"}, "spec": {"containers": [{"name": "main", "image": "any"}]}}
    assert site.as_tenant("create", "-f", "-", stdin=plain).accepted
    entered = site.as_tenant("exec", "plain", "--", "sh")
    assert not entered.refused_by_policy, f"a pod of one's own may be entered: {entered}"
