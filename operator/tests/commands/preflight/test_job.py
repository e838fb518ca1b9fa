"""Which files hold a job that can be checked, and the job that is made of it."""

from __future__ import annotations

import json

import pytest

from fairlead.commands.preflight.job import ManifestError, as_check, as_it_would_be, name_of, read_manifest

JOB = """
apiVersion: fairlead.io/v1alpha1
kind: TransferJob
metadata: {name: run42, namespace: bio, finalizers: [mine], labels: {a: b}}
spec:
  source: {volume: {persistentVolumeClaim: {claimName: raw}}}
  destination: {volume: {persistentVolumeClaim: {claimName: scratch}}}
  backoffLimit: 3
"""


@pytest.mark.parametrize("text", [JOB, json.dumps(read_manifest(JOB)), f"---\n{JOB}---\nkind: Namespace\n"])
def test_a_file_with_one_job_is_read_whatever_else_is_in_it(text: str) -> None:
    assert read_manifest(text)["spec"]["backoffLimit"] == 3


@pytest.mark.parametrize("date", ["2024-01-15", "2024-13-07", "2024-01-15T10:00:00Z", "!!timestamp 2024-01-15"])
def test_what_looks_like_a_date_is_text(date: str) -> None:
    job = read_manifest(JOB.replace("run42", date).replace("backoffLimit: 3", f"trafficClass: {date}"))
    word = date.rpartition(" ")[2]
    assert (name_of(job), job["spec"]["trafficClass"]) == (word, word)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it has no TransferJob"),
        ("kind: Pod", "it has no TransferJob"),
        (f"{JOB}---{JOB}", "it has 2 TransferJobs"),
        ("a: [", "it is no YAML"),
        ("- !!python/object/apply:os.system [id]", "it is no YAML"),
        ("just words", "it has no TransferJob"),
        (JOB.replace("v1alpha1", "v9"), "write fairlead.io/v1alpha1"),
        (JOB.replace("name: run42, ", ""), "metadata.name is missing"),
        ("apiVersion: fairlead.io/v1alpha1\nkind: TransferJob\nmetadata: {name: a}", "spec must be"),
        pytest.param("[" * 10_000, "it is no YAML", id="deep"),
        ("a: !!int x", "it is no YAML"),
        (f"{JOB}  data: !!binary aaaa", "no JSON"),
        (f"{JOB}  data: .nan", "no JSON"),
        (f"{JOB}  data: &all [*all]", "no JSON"),
        (f"{JOB}  managedBy: example.com/other", "ask that controller"),
    ],
)
def test_anything_else_is_refused_with_the_remedy(text: str, said: str) -> None:
    with pytest.raises(ManifestError, match=said):
        read_manifest(text)


def test_the_check_moves_nothing_has_a_name_of_its_own_and_ends_by_itself() -> None:
    manifest = read_manifest(JOB.replace("run42", "r" * 60))
    body = as_check(manifest, "bio", "0a1b", 90)
    assert body["metadata"] == {"name": f"{'r' * 40}-preflight-0a1b", "namespace": "bio"}
    spec = body["spec"]
    assert (spec["preflightOnly"], spec["backoffLimit"], spec["activeDeadlineSeconds"], spec["ttlSecondsAfterFinished"]) == (
        True,
        0,
        90,
        60,
    )
    assert spec["source"] == manifest["spec"]["source"]
    assert as_it_would_be(manifest, "bio", "0a1b")["spec"] == manifest["spec"]
