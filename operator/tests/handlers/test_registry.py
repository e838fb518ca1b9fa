from __future__ import annotations

import asyncio
from typing import Any, cast

import kopf
import pytest
from kopf._cogs.clients import errors
from kopf._cogs.structs.credentials import Vault, VaultKey
from kopf._core.intents.causes import Activity
from kubernetes.aio.client import Configuration

from fairlead.handlers.registry import build_registry, operator_settings
from fairlead.handlers.runtime import Runtime
from fairlead.handlers.timings import Timings


class _Untouched(dict[str, object]):
    """An object that must not be read, let alone copied."""

    def __iter__(self) -> object:  # type: ignore[override]
        raise AssertionError("the object was read")

    def __getitem__(self, key: str) -> object:
        raise AssertionError(f"{key} was read")


def test_kopf_neither_copies_nor_changes_the_object_of_an_event() -> None:
    persistence = operator_settings(Timings()).persistence
    body, patch = kopf.Body(_Untouched()), kopf.Patch()  # type: ignore[arg-type]
    essence = persistence.diffbase_storage.build(body=body)
    persistence.diffbase_storage.store(body=body, patch=patch, essence=essence)
    persistence.progress_storage.touch(body=body, patch=patch, value=None)
    assert persistence.diffbase_storage.fetch(body=body) is None
    assert persistence.progress_storage.clear(essence=essence) is essence
    assert not patch


class _FakeRuntime:
    """Has a connection, no token and no patience."""

    timings = Timings(login_pause_seconds=0.0)
    configuration = Configuration(host="https://server.example")

    async def bearer(self) -> str | None:
        return None


@pytest.mark.asyncio
async def test_credentials_that_were_refused_are_tried_again() -> None:
    """kopf ends when a login gives it what it had before, also where the API server refuses everybody for a moment."""
    registry = build_registry(cast(Runtime, _FakeRuntime()))
    (login,) = (handler.fn for handler in registry._activities.get_all_handlers() if handler.activity is Activity.AUTHENTICATION)
    vault, key = Vault(), VaultKey("login")
    info = await cast(Any, login)()
    await vault.populate({key: info})
    for _ in range(5):
        refused = asyncio.create_task(vault.invalidate(key, info, exc=errors.APIUnauthorizedError(status=401, headers={})))
        await vault.wait_for_emptiness()
        info = await cast(Any, login)()
        await vault.populate({key: info})
        await refused
        assert not vault.is_empty()
