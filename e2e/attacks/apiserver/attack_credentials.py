"""What becomes of an attempt's credentials once it has ended."""

from __future__ import annotations

from kubelet import FakeNodes
from lab import eventually

from e2e.attacks.lib.judge import Judge, gains
from e2e.attacks.lib.victim import Site


@gains("has keys that speak for either end of a transfer, long after it")
async def attack_with_what_a_transfer_left(site: Site, judge: Judge, nodes: FakeNodes) -> None:
    """Somebody who may read Secrets takes an attempt's keys after the transfer has succeeded."""
    async with site.operator():
        await _up(site, nodes)
        assert len(_secrets(site)) == 1, "the attempt has credentials while it runs"
        for role in ("sender", "receiver"):
            pod = await site.pod(role)
            assert pod is not None
            await nodes.finish(pod)
        await site.condition("Succeeded")
    left = _secrets(site)
    judge(not left, f"Secrets of the job: {left}")


@gains("has keys of every attempt that failed")
async def attack_with_what_a_failed_attempt_left(site: Site, judge: Judge, nodes: FakeNodes) -> None:
    """Somebody who may read Secrets takes an attempt's keys while the job is at its next attempt."""
    async with site.operator():
        await _up(site, nodes)
        for role in ("sender", "receiver"):
            pod = await site.pod(role)
            assert pod is not None
            await nodes.finish(pod, verdict="Failed", reason="PeerLost", retry=True)
        await eventually(lambda: site.pod("receiver", attempt=2), "the second attempt")
        left = _secrets(site)
    assert any(name.endswith("-2") for name in left), "the second attempt has credentials of its own"
    judge(len(left) == 1, f"Secrets of the job: {left}")


@gains("learns the keys of an attempt that runs")
async def attack_by_deleting_credentials_in_the_foreground(site: Site, judge: Judge) -> None:
    """A thief of the operator's token deletes an attempt's Secret in the foreground: the API server's answer to that is the Secret."""
    async with site.operator():
        await site.create_job()
        await site.appears("receiver")
    (name,) = _secrets(site)
    path = f"/api/v1/namespaces/{site.namespace}/secrets/{name}?propagationPolicy=Foreground"
    answer = site.as_user("system:serviceaccount:fairlead-system:fairlead", "delete", "--raw", path)
    judge(not answer.accepted and "tls" not in str(answer), str(answer))
    assert name in _secrets(site)


async def _up(site: Site, nodes: FakeNodes) -> None:
    await site.create_job()
    for role in ("receiver", "sender"):
        await nodes.start(await site.appears(role))
    await site.condition("MoversReady")


def _secrets(site: Site) -> list[str]:
    """Names of the Secrets in the tenant's namespace."""
    answer = site.as_tenant("get", "secrets", "-o", "name")
    assert answer.accepted, answer
    return [name.removeprefix("secret/") for name in str(answer).split()]
