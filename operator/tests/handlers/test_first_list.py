"""What an operator that starts waits for, and what ends it."""

from __future__ import annotations

import pytest

from fairlead.handlers.runtime import StartError, _first_list
from fairlead.handlers.timings import Timings
from fairlead.kube.errors import (
    ConflictError,
    ForbiddenError,
    InvalidError,
    KubeError,
    NotFoundError,
    ThrottledError,
    UnauthorizedError,
    UnavailableError,
)

pytestmark = pytest.mark.asyncio


class Server:
    def __init__(self, *errors: KubeError) -> None:
        self.errors = list(errors)

    async def look(self) -> None:
        if self.errors:
            raise self.errors.pop()


AT_ONCE = Timings(first_list_retry_seconds=0.0)


@pytest.mark.parametrize("kind", [NotFoundError, ConflictError, ForbiddenError, ThrottledError, UnauthorizedError, UnavailableError])
async def test_what_may_pass_is_waited_for(kind: type[KubeError]) -> None:
    server = Server(kind("no"), kind("no"))
    await _first_list(server.look, AT_ONCE)
    assert server.errors == []


async def test_a_list_that_is_refused_for_its_form_ends_the_start() -> None:
    with pytest.raises(StartError, match="cannot be listed"):
        await _first_list(Server(InvalidError("no")).look, AT_ONCE)


@pytest.mark.parametrize(("kind", "remedy"), [(ForbiddenError, "Check the operator's ClusterRole"), (UnavailableError, "does not answer")])
async def test_what_does_not_pass_ends_the_start_with_its_remedy(kind: type[KubeError], remedy: str) -> None:
    impatient = Timings(first_list_retry_seconds=0.0, first_list_patience_seconds=0.05)
    with pytest.raises(StartError, match=remedy):
        await _first_list(Server(*[kind("no")] * 1_000_000).look, impatient)
