"""When Cilium's bandwidth manager counts as on, and that nothing depends on its settings being readable."""

from __future__ import annotations

import logging
from typing import Any, cast

import pytest

from fairlead.handlers.cilium import BandwidthManager, is_bandwidth_manager_on
from fairlead.handlers.options import CiliumOptions
from fairlead.kube.client import CONFIG_MAPS, KubeClient, KubeObject, ResourceKind
from fairlead.kube.errors import ForbiddenError, NotFoundError, UnavailableError

AUTO = CiliumOptions("auto", "network", "settings")
ON = {"enable-bandwidth-manager": "true", "enable-bbr": "false"}


class FakeServer:
    """Answers with a ConfigMap of these data, or with an error."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def get(self, resource: ResourceKind, namespace: str | None, name: str) -> KubeObject:
        assert (resource, namespace, name) == (CONFIG_MAPS, "network", "settings")
        if isinstance(self.answer, Exception):
            raise self.answer
        return {"metadata": {"name": name}} | ({} if self.answer is None else {"data": self.answer})


def _manager(server: FakeServer, options: CiliumOptions = AUTO) -> BandwidthManager:
    return BandwidthManager(cast(KubeClient, server), options)


@pytest.mark.parametrize(
    ("settings", "on"),
    [
        (ON, True),
        ({"enable-bandwidth-manager": "1"}, True),
        ({"enable-bandwidth-manager": "false"}, False),
        ({"enable-bandwidth-manager": "yes"}, False),
        ({"enable-bandwidth-manager": True}, False),
        ({"enable-bandwidth-manager": ""}, False),
        ({"enable-bbr": "true"}, False),
        ({**ON, "enable-ipsec": "true"}, False),
        ({**ON, "enable-ipsec": "false"}, True),
        ({}, False),
    ],
)
def test_settings_are_read_as_cilium_does(settings: dict[str, Any], on: bool) -> None:
    assert is_bandwidth_manager_on(settings) is on


@pytest.mark.asyncio
async def test_it_follows_the_config_map() -> None:
    server = FakeServer(ON)
    manager = _manager(server)
    assert not manager.is_on(), "never assumed"
    seen = []
    for answer in (ON, {"enable-bandwidth-manager": "false"}, ON, None):
        server.answer = answer
        await manager.refresh()
        seen.append(manager.is_on())
    assert seen == [True, False, True, False]
    assert len(manager.services) == 1


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("obstacle", "on"),
    [
        (NotFoundError("no such ConfigMap", status=404), False),
        (ForbiddenError("no right", status=403), False),
        (UnavailableError("no answer", status=503), True),
    ],
    ids=["gone", "right withdrawn", "not answered"],
)
async def test_an_obstacle_stops_nothing(obstacle: Exception, on: bool) -> None:
    server = FakeServer(ON)
    manager = _manager(server)
    await manager.refresh()
    server.answer = obstacle
    await manager.refresh()
    assert manager.is_on() is on


@pytest.mark.asyncio
async def test_a_missing_right_is_logged_once_with_its_remedy(caplog: pytest.LogCaptureFixture) -> None:
    manager = _manager(FakeServer(ForbiddenError("no right", status=403)))
    with caplog.at_level(logging.WARNING):
        await manager.refresh()
        await manager.refresh()
    (record,) = caplog.records
    assert "cilium.bandwidthManager" in record.getMessage()


@pytest.mark.asyncio
@pytest.mark.parametrize(("said", "on"), [("on", True), ("off", False)])
async def test_what_an_administrator_says_is_not_asked_again(said: Any, on: bool) -> None:
    manager = _manager(FakeServer(AssertionError("nobody may ask")), CiliumOptions(said))
    await manager.refresh()
    assert manager.is_on() is on
    assert manager.services == ()
