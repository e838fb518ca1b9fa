"""The operator as it runs in a pod: by the token of its service account, read from a file."""

from __future__ import annotations

from pathlib import Path

import pytest
from control_plane import ADDRESS, PORT, ControlPlane
from kubernetes.aio.config import incluster_config
from lab import Lab

from fairlead.__main__ import main
from fairlead.handlers import process
from fairlead.handlers.process import EXIT_FAILED, EXIT_USAGE
from fairlead.handlers.timings import Timings


@pytest.fixture
def service_account(lab: Lab, control_plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files and variables that a kubelet gives a pod; returns the token's file."""
    token = tmp_path / "token"
    token.write_text(lab.kubectl("-n", "fairlead-system", "create", "token", "fairlead").stdout.strip())
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(control_plane.ca))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", ADDRESS)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(PORT))
    return token


async def test_reconciles_and_watches_with_the_token(lab: Lab, service_account: Path) -> None:
    lab.options["kubeconfig"] = ""
    async with lab.operator():
        await lab.create_job(suspend=True)
        await lab.condition("Suspended")


def test_an_operator_without_rights_says_what_to_do_and_stops(
    cluster: None, control_plane: ControlPlane, capsys: pytest.CaptureFixture[str]
) -> None:
    images = ("--mover-image=mover", "--advisor-image=advisor")
    listeners = ("--metrics-address=127.0.0.1:19091", "--health-address=127.0.0.1:18081")
    words = [*images, *listeners, f"--kubeconfig={control_plane.kubeconfig('nobody')}", "--log-format=plain"]
    code = process.main(words, Timings(first_list_retry_seconds=0.2, first_list_patience_seconds=5.0))
    assert code == EXIT_FAILED
    last_line = capsys.readouterr().err.strip().splitlines()[-1]
    assert "stopped: jobs and pods cannot be listed" in last_line
    assert "Check the operator's ClusterRole" in last_line


def test_a_wrong_flag_ends_with_its_name_and_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--mover-image=mover"]) == EXIT_USAGE
    printed = capsys.readouterr().err
    assert printed.startswith("fairlead: --advisor-image (FAIRLEAD_ADVISOR_IMAGE): missing")
    assert "Traceback" not in printed


async def test_an_operator_that_is_stopped_while_it_starts_ends_without_an_error(lab: Lab) -> None:
    for _ in range(5):
        async with lab.operator():
            pass
