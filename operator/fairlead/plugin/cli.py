"""The command line of `kubectl fairlead`: commands and flags, and what each of them calls."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from fairlead.api.shared.quantity import RateError, parse_rate
from fairlead.commands.connection import KubeconfigError
from fairlead.commands.preflight.job import ManifestError, namespace_of, read_manifest
from fairlead.kube.client import KubeObject
from fairlead.plugin import act
from fairlead.plugin.checks import preflight
from fairlead.plugin.cluster import Access, Exit, PluginError, Session, open_session
from fairlead.plugin.nodes import nodes
from fairlead.plugin.output import Output, complain
from fairlead.plugin.predict import show_prediction
from fairlead.plugin.submit import SubmittedEnd, Wanted, as_yaml, manifest_of, submit
from fairlead.plugin.top import top
from fairlead.plugin.watch import watch
from fairlead.plugin.why.command import show_cause

app = typer.Typer(
    name="kubectl fairlead",
    help="Transfer jobs of Fairlead: submit and watch them, ask why they stand where they stand, see who has which link.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Form(StrEnum):
    """Forms of output."""

    TEXT = "text"
    JSON = "json"


_BESIDE_FILE: Final = frozenset({"file", "dry_run", "wait", "timeout", "namespace", "output", "kubeconfig", "context"})
"""Parameters of `submit` that say nothing of the job."""

Jobs = Annotated[list[str], typer.Argument(metavar="JOB...", help="Names of TransferJobs; tj/NAME is taken too.")]
Namespace = Annotated[str | None, typer.Option("--namespace", "-n", metavar="NAME", help="Namespace; that of the context if absent.")]
Kubeconfig = Annotated[str | None, typer.Option("--kubeconfig", metavar="FILE", help="KUBECONFIG or ~/.kube/config if absent.")]
Context = Annotated[str | None, typer.Option("--context", metavar="NAME", help="Context of the kubeconfig; its current one if absent.")]
As = Annotated[Form, typer.Option("--output", "-o", help="Text for people or JSON for programs.")]
Seconds = Annotated[float | None, typer.Option("--timeout", min=0.1, metavar="SECONDS", help="Give up after so long; exit code 4.")]
Everything = Annotated[bool, typer.Option("--all", help="All jobs of the namespace that have not ended.")]


@app.command("watch")
def _watch(
    jobs: Annotated[list[str] | None, typer.Argument(metavar="[JOB...]", help="Names; all jobs if absent.")] = None,
    *,
    all_namespaces: Annotated[bool, typer.Option("--all-namespaces", "-A", help="Jobs of every namespace.")] = False,
    once: Annotated[bool, typer.Option("--once", help="Print them once and end.")] = False,
    namespace: Namespace = None,
    output: As = Form.TEXT,
    timeout: Seconds = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Progress bars of all jobs. With names it ends when all of these have ended or are suspended, with an exit code by their outcome."""
    if jobs and all_namespaces:
        raise _usage("give names or -A, not both: names are of one namespace")
    access = Access(kubeconfig, context, namespace, all_namespaces)
    shown = Output(as_json=output is Form.JSON)
    _run(access, lambda session: watch(session, shown, _names(jobs or []), once=once), timeout)


@app.command("why")
def _why(
    job: Annotated[str, typer.Argument(metavar="JOB", help="Name of a TransferJob; tj/NAME is taken too.")],
    namespace: Namespace = None,
    output: As = Form.TEXT,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Why a job waits, fails or is no faster: the one true cause, and what to do."""
    _run(Access(kubeconfig, context, namespace), lambda session: show_cause(session, Output(as_json=output is Form.JSON), _name(job)))


@app.command("top")
def _top(
    once: Annotated[bool, typer.Option("--once", help="Print it once and end.")] = False,
    output: As = Form.TEXT,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Links and tenants of the FairnessPolicy with Jain's index, live on a terminal."""
    _run(Access(kubeconfig, context), lambda session: top(session, Output(as_json=output is Form.JSON), once=once))


@app.command("submit")
def _submit(
    invocation: typer.Context,
    source: Annotated[str | None, typer.Argument(metavar="SOURCE", help="CLAIM:PATH of the directory to move.")] = None,
    destination: Annotated[str | None, typer.Argument(metavar="DESTINATION", help="CLAIM:PATH of where it goes.")] = None,
    *,
    file: Annotated[str | None, typer.Option("--file", "-f", metavar="FILE", help="A TransferJob instead; - is standard input.")] = None,
    name: Annotated[str | None, typer.Option(help="Name of the job; made from the source if absent.")] = None,
    source_node: Annotated[str | None, typer.Option(help="Node to read from.")] = None,
    source_site: Annotated[str | None, typer.Option(help="Site to read from.")] = None,
    source_interface: Annotated[str | None, typer.Option(help="Network interface that sends.")] = None,
    destination_node: Annotated[str | None, typer.Option(help="Node to write at.")] = None,
    destination_site: Annotated[str | None, typer.Option(help="Site to write at.")] = None,
    destination_interface: Annotated[str | None, typer.Option(help="Network interface that receives.")] = None,
    network: Annotated[str | None, typer.Option(help="Host or Pod.")] = None,
    limit: Annotated[str | None, typer.Option(metavar="RATE", help="Most bits per second, such as 2G.")] = None,
    guarantee: Annotated[str | None, typer.Option(metavar="RATE", help="What it gets in any case; it waits until there is room.")] = None,
    weight: Annotated[int | None, typer.Option(help="Share among its tenant's jobs.")] = None,
    priority: Annotated[int | None, typer.Option(help="Who is first when jobs of the tenant wait, 0 to 100.")] = None,
    protocol: Annotated[str | None, typer.Option(help="Transport protocol: TCP, QUIC or UDT.")] = None,
    traffic_class: Annotated[str | None, typer.Option(help="Normal, or Scavenger: gives way to all other traffic.")] = None,
    congestion_control: Annotated[str | None, typer.Option(metavar="NAME", help="Such as cubic or bbr; else the advisor chooses.")] = None,
    streams: Annotated[str | None, typer.Option(metavar="N|N-M", help="Number of parallel streams, or its bounds.")] = None,
    encryption: Annotated[str | None, typer.Option(help="Required or None.")] = None,
    overwrite: Annotated[str | None, typer.Option(help="Never, IfDifferent or Always.")] = None,
    verify: Annotated[str | None, typer.Option(help="Checksum or ReadBack.")] = None,
    include: Annotated[list[str] | None, typer.Option(metavar="GLOB", help="Move these alone; may be repeated.")] = None,
    exclude: Annotated[list[str] | None, typer.Option(metavar="GLOB", help="Leave these out; may be repeated.")] = None,
    run_as_user: Annotated[int | None, typer.Option(metavar="UID", help="User that reads and writes.")] = None,
    run_as_group: Annotated[int | None, typer.Option(metavar="GID", help="Group that reads and writes.")] = None,
    backoff_limit: Annotated[int | None, typer.Option(metavar="N", help="Failed attempts that are followed by another one.")] = None,
    deadline: Annotated[int | None, typer.Option(metavar="SECONDS", help="Time after which the job fails.")] = None,
    ttl: Annotated[int | None, typer.Option(metavar="SECONDS", help="Time after its end at which the job is deleted.")] = None,
    label: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="Label of the job; may be repeated.")] = None,
    suspend: Annotated[bool, typer.Option("--suspend", help="Create it suspended.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the job and create nothing.")] = False,
    wait: Annotated[bool, typer.Option("--wait", "-w", help="Show its progress until it has ended; exit code by outcome.")] = False,
    timeout: Seconds = None,
    namespace: Namespace = None,
    output: As = Form.TEXT,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Creates a job: kubectl fairlead submit raw:run42 scratch:run42 --limit 2G --wait"""
    wanted: Wanted | None = None
    if file is None:
        if source is None or destination is None:
            raise _usage("give SOURCE and DESTINATION, each as CLAIM:PATH, or --file FILE")
        wanted = Wanted(
            SubmittedEnd(source, source_node, source_site, source_interface),
            SubmittedEnd(destination, destination_node, destination_site, destination_interface),
            name=name,
            network=network,
            limit=limit,
            guarantee=guarantee,
            weight=weight,
            priority=priority,
            protocol=protocol,
            traffic_class=traffic_class,
            congestion_control=congestion_control,
            streams=streams,
            encryption=encryption,
            overwrite=overwrite,
            verify=verify,
            include=include or (),
            exclude=exclude or (),
            run_as_user=run_as_user,
            run_as_group=run_as_group,
            backoff_limit=backoff_limit,
            deadline_seconds=deadline,
            ttl_seconds=ttl,
            suspend=suspend,
            labels=label or (),
        )
    elif source is not None:
        raise _usage("give SOURCE and DESTINATION or --file FILE, not both")
    else:
        _refuse_flags_of_job(invocation)
    if timeout is not None and not wait:
        raise _usage("--timeout is for --wait, which shows the job until it has ended: give both, or --deadline for the job itself")
    manifest = _read(file) if file is not None else None
    given = _namespace(namespace, manifest)
    shown = Output(as_json=output is Form.JSON)

    async def run(session: Session) -> Exit:
        body = manifest if manifest is not None else manifest_of(wanted, session.namespace) if wanted is not None else {}
        if not dry_run:
            return await submit(session, shown, body, waits=wait)
        if shown.as_json:
            shown.document(body)
        else:
            shown.line(as_yaml(body))
        return Exit.DONE

    _run(Access(kubeconfig, context, given), run, timeout if wait else None)


@app.command("cancel")
def _cancel(
    jobs: Jobs,
    *,
    wait: Annotated[bool, typer.Option("--wait", "-w", help="End when they are gone and their partial files removed.")] = False,
    timeout: Seconds = None,
    namespace: Namespace = None,
    output: As = Form.TEXT,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Deletes jobs that have not ended, with their partial files."""
    shown = Output(as_json=output is Form.JSON)
    _run(Access(kubeconfig, context, namespace), lambda session: act.cancel(session, shown, _names(jobs), waits=wait), timeout)


@app.command("suspend")
def _suspend(
    jobs: Annotated[list[str] | None, typer.Argument(metavar="JOB...", help="Names of TransferJobs.")] = None,
    *,
    every: Everything = False,
    namespace: Namespace = None,
    output: As = Form.TEXT,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Stops the movers of jobs and keeps what has arrived."""
    _set_suspension(jobs or [], every, True, Access(kubeconfig, context, namespace), output)


@app.command("resume")
def _resume(
    jobs: Annotated[list[str] | None, typer.Argument(metavar="JOB...", help="Names of TransferJobs.")] = None,
    *,
    every: Everything = False,
    namespace: Namespace = None,
    output: As = Form.TEXT,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Lets suspended jobs go on from where they were."""
    _set_suspension(jobs or [], every, False, Access(kubeconfig, context, namespace), output)


@app.command("preflight")
def _preflight(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A TransferJob; - is standard input.")],
    *,
    timeout: Annotated[int, typer.Option(min=1, max=3600, metavar="SECONDS", help="How long the checks may take.")] = 120,
    namespace: Namespace = None,
    output: As = Form.TEXT,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Checks a job before it is created, with movers on its nodes, and moves nothing."""
    manifest = _read(file)
    shown = Output(as_json=output is Form.JSON)
    access = Access(kubeconfig, context, _namespace(namespace, manifest))
    _run(access, lambda session: preflight(session, shown, manifest, timeout))


@app.command("predict")
def _predict(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A TransferJob; - is standard input.")],
    *,
    size: Annotated[str | None, typer.Option(metavar="BYTES", help="How much it moves, such as 40G or 2T.")] = None,
    namespace: Namespace = None,
    output: As = Form.TEXT,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """What would be decided of a job now: whether it starts, where, its cap, and how long it takes. Nothing is created."""
    manifest = _read(file)
    try:
        # Sizes are written as rates are: decimal, with k, M, G or T.
        size_bytes = None if size is None else parse_rate(size)
    except RateError as error:
        raise _usage(f"--size {size}: write bytes such as 40G or 2T") from error
    shown = Output(as_json=output is Form.JSON)
    access = Access(kubeconfig, context, _namespace(namespace, manifest))
    _run(access, lambda session: show_prediction(session, shown, manifest, size_bytes))


@app.command("nodes")
def _nodes(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NODE...]", help="Nodes to show in full; else a line for each.")] = None,
    output: As = Form.TEXT,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Data transfer nodes: interfaces, slots, space, and what to set on them."""
    _run(Access(kubeconfig, context), lambda session: nodes(session, Output(as_json=output is Form.JSON), names or []))


def _set_suspension(jobs: list[str], every: bool, suspend: bool, access: Access, output: Form) -> None:
    if bool(jobs) == every:
        raise _usage("give names of jobs, or --all")
    shown = Output(as_json=output is Form.JSON)
    _run(access, lambda session: act.set_suspension(session, shown, _names(jobs), every=every, suspend=suspend))


def _refuse_flags_of_job(invocation: typer.Context) -> None:
    """A flag beside a file would else change nothing, in silence: a job would not be suspended, or have no limit."""
    for parameter in invocation.command.params:
        source = invocation.get_parameter_source(parameter.name or "")
        if parameter.name not in _BESIDE_FILE and source is not None and source.name == "COMMANDLINE":
            raise _usage(f"{parameter.opts[0]} is of a job that the arguments describe: write it into the file")


def _usage(words: str) -> PluginError:
    return PluginError(words, Exit.USAGE)


def _names(words: list[str]) -> list[str]:
    return list(dict.fromkeys(_name(word) for word in words))


def _name(word: str) -> str:
    """`tj/NAME` is taken too, as kubectl prints names."""
    return word.removeprefix("transferjob.fairlead.io/").removeprefix("transferjob/").removeprefix("tj/")


def _read(file: str) -> KubeObject:
    try:
        text = typer.get_text_stream("stdin").read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _usage(f"{file} cannot be read ({error}): name a file with a TransferJob, or - for standard input") from error
    try:
        return read_manifest(text)
    except ManifestError as error:
        raise _usage(f"{file}: {error}") from error


def _namespace(given: str | None, manifest: KubeObject | None) -> str | None:
    named = namespace_of(manifest) if manifest is not None else None
    if given is not None and named is not None and given != named:
        raise _usage(f"the file's namespace is {named}, and -n says {given}: give one of them")
    return given or named


def _run(access: Access, command: Callable[[Session], Awaitable[Exit]], timeout_seconds: float | None = None) -> None:
    """Runs a command in an open session and ends the process with its exit code."""

    async def run() -> Exit:
        task = asyncio.current_task()
        if task is not None:
            # As SIGINT, which `asyncio.run` turns into a cancellation by itself.
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        async with asyncio.timeout(timeout_seconds), open_session(access) as session:
            return await command(session)

    raise typer.Exit(code=int(_outcome(run)))


def _outcome(run: Callable[[], Any]) -> Exit:
    try:
        return Exit(asyncio.run(run()))
    except TimeoutError:
        complain("the time of --timeout is over; jobs that exist go on")
        return Exit.TIMEOUT
    except KubeconfigError as error:
        complain(str(error))
        return Exit.USAGE
    except (KeyboardInterrupt, asyncio.CancelledError):
        complain("interrupted; jobs that exist go on")
        return Exit.INTERRUPTED
