"""`kubectl fairlead submit`: a job from arguments or a file, created, and waited for if asked."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml

from fairlead.api.names import API_VERSION, KIND
from fairlead.commands.connection import KubeconfigError
from fairlead.kube.client import JOBS, KubeObject
from fairlead.kube.errors import AlreadyExistsError, ForbiddenError, InvalidError, KubeError
from fairlead.plugin.cluster import Exit, PluginError, Session
from fairlead.plugin.output import Output, complain
from fairlead.plugin.summary import outcome_of
from fairlead.plugin.watch import wait_for
from fairlead.plugin.why.command import show_cause

_PLACE: Final = re.compile(r"(?P<claim>[a-z0-9]([-a-z0-9.]*[a-z0-9])?)(:(?P<path>.*))?", re.DOTALL)
_LONGEST_PREFIX: Final = 40


@dataclass(frozen=True, slots=True)
class SubmittedEnd:
    """One end of the transfer, as the arguments have it."""

    place: str
    """`CLAIM:PATH`, or `CLAIM` for the whole volume."""
    node: str | None = None
    site: str | None = None
    interface: str | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """The job that the arguments describe; None leaves a field to its default."""

    source: SubmittedEnd
    destination: SubmittedEnd
    name: str | None = None
    network: str | None = None
    limit: str | None = None
    guarantee: str | None = None
    weight: int | None = None
    priority: int | None = None
    protocol: str | None = None
    congestion_control: str | None = None
    streams: str | None = None
    """`N`, or `FEWEST-MOST`."""
    encryption: str | None = None
    traffic_class: str | None = None
    overwrite: str | None = None
    verify: str | None = None
    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    run_as_user: int | None = None
    run_as_group: int | None = None
    backoff_limit: int | None = None
    deadline_seconds: int | None = None
    ttl_seconds: int | None = None
    suspend: bool = False
    labels: Sequence[str] = ()
    """`KEY=VALUE`."""


def manifest_of(wanted: Wanted, namespace: str) -> KubeObject:
    """The TransferJob. Raises PluginError naming the argument that cannot be; values are the API server's to judge."""
    source, destination = _end(wanted.source, "SOURCE"), _end(wanted.destination, "DESTINATION")
    named = {"name": wanted.name} if wanted.name is not None else {"generateName": _prefix(source)}
    labels = {"labels": _labels(wanted.labels)} if wanted.labels else {}
    spec = {
        "source": source,
        "destination": destination,
        "network": wanted.network,
        "transport": {
            "protocol": wanted.protocol,
            "trafficClass": wanted.traffic_class,
            "congestionControl": wanted.congestion_control,
            "streams": _streams(wanted.streams),
            "encryption": wanted.encryption,
        },
        "bandwidth": {"limit": wanted.limit, "guarantee": wanted.guarantee, "weight": wanted.weight},
        "priority": wanted.priority,
        "data": {
            "overwrite": wanted.overwrite,
            "verify": wanted.verify,
            "include": list(wanted.include) or None,
            "exclude": list(wanted.exclude) or None,
        },
        "suspend": wanted.suspend or None,
        "backoffLimit": wanted.backoff_limit,
        "activeDeadlineSeconds": wanted.deadline_seconds,
        "ttlSecondsAfterFinished": wanted.ttl_seconds,
        "securityContext": {"runAsUser": wanted.run_as_user, "runAsGroup": wanted.run_as_group},
    }
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {**named, "namespace": namespace, **labels}, "spec": _given(spec)}


def _end(end: SubmittedEnd, argument: str) -> KubeObject:
    found = _PLACE.fullmatch(end.place)
    if found is None:
        raise PluginError(f"{argument} is {end.place!r}: write CLAIM:PATH, or CLAIM for the whole volume", Exit.USAGE)
    chosen = {"node": end.node, "site": end.site, "interface": end.interface}
    return {"volume": {"persistentVolumeClaim": {"claimName": found["claim"]}}, "path": (found["path"] or "").strip("/"), **_given(chosen)}


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    """What is given, without what is left to its default."""
    cleaned = {key: _given(value) if isinstance(value, dict) else value for key, value in fields.items()}
    return {key: value for key, value in cleaned.items() if value is not None and value != {}}


def _streams(text: str | None) -> dict[str, int] | None:
    if text is None:
        return None
    found = re.fullmatch(r"([0-9]{1,3})(?:-([0-9]{1,3}))?", text)
    if found is None:
        raise PluginError(f"--streams is {text!r}: write a number such as 8, or bounds such as 2-16", Exit.USAGE)
    return {"min": int(found[1]), "max": int(found[2] or found[1])}


def _labels(words: Sequence[str]) -> dict[str, str]:
    labels: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise PluginError(f"--label is {word!r}: write KEY=VALUE", Exit.USAGE)
        labels[key] = value
    return labels


def _prefix(source: Mapping[str, Any]) -> str:
    """What the name of a job without one begins with: the directory's own name, or the claim's."""
    last = str(source["path"]).rsplit("/", 1)[-1] or source["volume"]["persistentVolumeClaim"]["claimName"]
    readable = re.sub(r"[^a-z0-9]+", "-", last.lower()).strip("-")[:_LONGEST_PREFIX].rstrip("-")
    return f"{readable or 'job'}-"


async def submit(session: Session, output: Output, manifest: KubeObject, *, waits: bool) -> Exit:
    """Creates the job, and with `waits` shows it until it has ended. Raises PluginError if the API server does not take it."""
    try:
        created = await session.client.create(JOBS, session.namespace, manifest)
    except (InvalidError, AlreadyExistsError) as error:
        raise PluginError(f"the API server does not take the job: {words_of(error)}") from error
    except ForbiddenError as error:
        # An admission policy refuses with its own words, which say what helps; a missing right has the API server's.
        raise PluginError(f"you may not create this job: {words_of(error)}") from error
    except KubeError as error:
        raise session.failure(error, "create", JOBS, session.namespace) from error
    name, uid = created["metadata"]["name"], created["metadata"]["uid"]
    if not waits:
        if output.as_json:
            output.document(created)
        else:
            output.line(f"{session.namespace}/{name} created; `kubectl fairlead watch {name} -n {session.namespace}` shows it")
        return Exit.DONE
    if not output.as_json:
        output.line(f"{session.namespace}/{name} created")
    ended = await wait_for(session, output, uid, name)
    if ended is None:
        raise PluginError(f"{session.namespace}/{name} was deleted before it ended", Exit.ENDED)
    if not output.as_json:
        try:
            await show_cause(session, output, name)
        except (PluginError, KubeconfigError) as error:
            # How it ended is known, and what programs go by: a job with ttlSecondsAfterFinished may be gone by now.
            complain(f"{session.namespace}/{name} has ended, and why cannot be shown: {error}")
    return outcome_of([ended])


def as_yaml(manifest: KubeObject) -> str:
    """The manifest as a file."""
    return yaml.safe_dump(manifest, sort_keys=False).rstrip()


def words_of(error: KubeError) -> str:
    """The API server's own words, without the request."""
    found = re.match(r"[A-Z]+ /\S+: [0-9]+ [A-Za-z]*: (.*)", str(error), re.DOTALL)
    return found[1] if found else str(error)
