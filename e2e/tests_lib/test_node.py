"""An administrator finds the one process that is meant."""

from __future__ import annotations

import re
from typing import Any

import pytest
from e2e.lib.node import advisor_command_line


@pytest.mark.parametrize(
    ("listener", "is_found"),
    [
        pytest.param("--http=10.0.0.1:24002", True, id="its own"),
        pytest.param("--http=10.0.0.1:24002 --seconds=10", True, id="its own among others"),
        pytest.param("--http=10.244.1.7:24002", False, id="that of a pod with an address of its own"),
        pytest.param("--http=10.0.0.1:240021", False, id="another port of the node"),
    ],
)
def test_the_advisor_of_a_job_is_found_and_no_other(listener: str, is_found: bool) -> None:
    ports = [{"name": "advisor-http", "containerPort": 24002}]
    sender: dict[str, Any] = {"spec": {"containers": [{"ports": ports}]}, "status": {"podIP": "10.0.0.1"}}
    command = f"python /usr/bin/fairlead-advisor run --control-socket=/run/control {listener}"
    assert (re.search(advisor_command_line(sender), command) is not None) is is_found
