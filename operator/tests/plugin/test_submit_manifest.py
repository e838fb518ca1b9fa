"""From arguments to a TransferJob."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer

from fairlead.plugin.cli import app
from fairlead.plugin.cluster import PluginError
from fairlead.plugin.main import main
from fairlead.plugin.submit import SubmittedEnd, Wanted, manifest_of


def made(source: str = "raw:run42", destination: str = "scratch", **more: Any) -> dict[str, Any]:
    return manifest_of(Wanted(SubmittedEnd(source), SubmittedEnd(destination), **more), "bio")


def test_what_is_not_given_is_left_to_the_api_servers_defaults() -> None:
    manifest = made()
    assert manifest["metadata"] == {"generateName": "run42-", "namespace": "bio"}
    assert manifest["spec"] == {
        "source": {"volume": {"persistentVolumeClaim": {"claimName": "raw"}}, "path": "run42"},
        "destination": {"volume": {"persistentVolumeClaim": {"claimName": "scratch"}}, "path": ""},
    }


@pytest.mark.parametrize(
    ("place", "claim", "path"), [("raw", "raw", ""), ("raw:", "raw", ""), ("raw:/a/b/", "raw", "a/b"), ("raw:a:b", "raw", "a:b")]
)
def test_a_place_is_a_claim_and_a_path_below_its_root(place: str, claim: str, path: str) -> None:
    source = made(place)["spec"]["source"]
    assert (source["volume"]["persistentVolumeClaim"]["claimName"], source["path"]) == (claim, path)


@pytest.mark.parametrize(
    ("path", "prefix"), [("raw:Run 42_final/", "run-42-final-"), ("raw", "raw-"), ("raw:___", "job-"), (f"raw:{'x' * 80}", f"{'x' * 40}-")]
)
def test_a_job_without_a_name_is_named_after_its_source(path: str, prefix: str) -> None:
    assert made(path)["metadata"]["generateName"] == prefix


def test_what_is_given_goes_where_the_resource_has_it() -> None:
    spec = made(name="n", limit="2G", streams="8", include=["*.nc"], run_as_user=1000, suspend=True)["spec"]
    assert spec["bandwidth"] == {"limit": "2G"}
    assert spec["transport"] == {"streams": {"min": 8, "max": 8}}
    assert made(traffic_class="Scavenger")["spec"]["transport"] == {"trafficClass": "Scavenger"}
    assert (spec["data"], spec["securityContext"], spec["suspend"]) == ({"include": ["*.nc"]}, {"runAsUser": 1000}, True)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"source": "/data/run42"}, "SOURCE is '/data/run42': write CLAIM:PATH"),
        ({"destination": ""}, "DESTINATION is ''"),
        ({"streams": "2-"}, "--streams is '2-'"),
        ({"labels": ["a"]}, "--label is 'a': write KEY=VALUE"),
    ],
)
def test_an_argument_that_cannot_be_is_named_with_what_to_write(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(PluginError, match="write") as refused:
        made(**fields)
    assert words in str(refused.value)
    assert refused.value.code == 2


BESIDE_A_FILE = {"--dry-run", "--wait", "--timeout", "--namespace", "--output", "--kubeconfig", "--context", "--help"}
JOB = """
apiVersion: fairlead.io/v1alpha1
kind: TransferJob
metadata: {name: run42}
spec: {source: {}, destination: {}}
"""


def submit_options() -> list[Any]:
    root: Any = typer.main.get_command(app)
    return [each for each in root.commands["submit"].params if each.param_type_name == "option"]


@pytest.mark.parametrize("option", [each for each in submit_options() if "--file" not in each.opts], ids=lambda each: each.opts[0])
def test_a_flag_of_the_job_beside_a_file_is_refused_and_no_other_is(
    option: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "job.yaml").write_text(JOB)
    flag = next(word for word in option.opts if word.startswith("--"))
    given = [flag] if option.is_flag else [flag, "text" if flag == "--output" else "1"]
    beside = [] if flag == "--kubeconfig" else ["--kubeconfig=/nowhere"]
    assert main(["submit", "--file", str(tmp_path / "job.yaml"), *given, *beside, *(["--wait"] if flag == "--timeout" else [])]) == 2
    error = capsys.readouterr().err
    words = "there is no kubeconfig" if flag in BESIDE_A_FILE else f"{flag} "
    assert (words in error, "write it into the file" in error) == (True, flag not in BESIDE_A_FILE)


def test_a_time_without_anything_to_wait_for_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["submit", "raw:run42", "scratch:run42", "--timeout=60", "--kubeconfig=/nowhere"]) == 2
    assert "--timeout is for --wait" in capsys.readouterr().err
