"""The command line: `hack/cluster/cluster COMMAND`."""

from __future__ import annotations

import argparse
import dataclasses
import os
import signal
import sys
from collections.abc import Mapping
from typing import NoReturn

from fairlead_dev.cluster import layout
from fairlead_dev.cluster.artifacts.programs import PROGRAMS
from fairlead_dev.cluster.cluster import Cluster
from fairlead_dev.cluster.errors import ClusterError
from fairlead_dev.cluster.kubernetes.node import archive_from
from fairlead_dev.cluster.layout import DATA_LINKS, TRANSFER_NODES, DataLink, Layout, WanSettings
from fairlead_dev.cluster.machine import network, shell
from fairlead_dev.cluster.machine.progress import BuildProgress
from fairlead_dev.errors import CommandUsageError

HELP = """Use it:
  hack/cluster/cluster kubectl get nodes
  hack/cluster/cluster enter -- bash              a shell in the cluster's network, with KUBECONFIG, kubectl and helm
  hack/cluster/cluster exec dtn-a -- ping -c3 {peer}
  hack/cluster/cluster wan stats
  hack/cluster/cluster down"""

_WAN_FIELDS = [field.name for field in dataclasses.fields(WanSettings)]


def parser() -> argparse.ArgumentParser:
    """All commands and options."""
    top = argparse.ArgumentParser(prog="cluster", description="A real Kubernetes cluster of network namespaces on this machine.")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    command = commands.add_parser("preflight", help="say what this machine lacks")
    command.add_argument("--install", action="store_true", help="install missing Debian packages")

    command = commands.add_parser("build", help="compile the programs that the cache lacks")
    names = ", ".join(program.name for program in PROGRAMS)
    command.add_argument("--only", metavar="NAME,…", default="", help=f"some of: {names}")

    command = commands.add_parser("images", help="build changed images and import them into a running cluster")
    command.add_argument("--of", metavar="COMMIT", help="those of an earlier commit, tagged with its first digits, which are printed")

    command = commands.add_parser("up", help="start the cluster, building what is missing")
    command.add_argument("--install", action="store_true", help="install missing Debian packages")
    command.add_argument("--no-project-images", action="store_true", help="start without the operator's, mover's and advisor's images")
    for link in DATA_LINKS:
        _add_wan_options(command, link, link.defaults)

    commands.add_parser("down", help="stop the cluster and leave nothing behind")
    commands.add_parser("status", help="what runs, and whether it is healthy")

    command = commands.add_parser("monitoring", help="a Prometheus with its operator, and the chart watched by it; built the first time")
    command.add_argument("action", choices=("up", "down"))

    command = commands.add_parser("kueue", help="Kueue, and the chart that heeds it; built the first time")
    command.add_argument("action", choices=("up", "down"))

    command = commands.add_parser("load", help="import image archives into every node")
    command.add_argument("archives", nargs="+", metavar="ARCHIVE")

    command = commands.add_parser("logs", help="the log of a daemon; without a service, the services that have one")
    command.add_argument("node", choices=layout.BOXES)
    command.add_argument("service", nargs="?")
    command.add_argument("-f", "--follow", action="store_true")

    command = commands.add_parser("disk", help="make a folder for a local volume on a node and print its path there")
    command.add_argument("node")
    command.add_argument("name")
    command.add_argument("--size", help="a file system of its own that fills up at this size, like 64M")
    command.add_argument("--remove", action="store_true", help="remove the disk with all that is on it")

    wan = commands.add_parser("wan", help="statistics and settings of the wide-area links, and their failures")
    wan_commands = wan.add_subparsers(dest="wan_command", required=True, metavar="stats|set|restart|cut|restore")
    for name in ("stats", "set"):
        passing = wan_commands.add_parser(
            name, add_help=False, allow_abbrev=False, help=f"`fairlead-wan {name}` on the running link; options as there"
        )
        _add_link_option(passing)
    restart = wan_commands.add_parser("restart", help="start the emulator again, with other settings if given")
    _add_link_option(restart)
    _add_wan_options(restart, DATA_LINKS[0], None)
    cut = wan_commands.add_parser("cut", help="let nothing pass, until `wan restore`")
    _add_link_option(cut)
    ends = [node.name for node in TRANSFER_NODES]
    cut.add_argument("--carrier", action="append", default=[], choices=ends, help="this node's interface loses its carrier too")
    _add_link_option(wan_commands.add_parser("restore", help="end a cut"))

    # These pass their arguments on untouched; they are listed here for the help text.
    commands.add_parser("kubectl", help="kubectl as administrator, in the cluster's network", add_help=False)
    commands.add_parser("exec", help="NODE -- COMMAND…: run a command inside a node", add_help=False)
    commands.add_parser(
        "enter", help="-- COMMAND…: run a command of this machine in the cluster's network, with KUBECONFIG set", add_help=False
    )
    return top


def _add_link_option(command: argparse.ArgumentParser) -> None:
    names = ", ".join(link.interface for link in DATA_LINKS)
    first = DATA_LINKS[0].interface
    command.add_argument("--link", default=first, metavar="LINK", help=f"{names}, or its number (default {first})")


def _add_wan_options(command: argparse.ArgumentParser, link: DataLink, defaults: WanSettings | None) -> None:
    """The settings of a link: `--rate` of the first, `--data1-rate` of another."""
    prefix = "" if link is DATA_LINKS[0] else f"{link.interface}-"
    for option, meaning in (
        ("rate", "bits per second each way, like 200M"),
        ("delay", "one way, like 30ms"),
        ("buffer", "drop-tail queue in bytes, like 3MB"),
        ("loss", "share of packets lost at random, like 0.001"),
        ("reorder", "share of packets that come later than their turn, and by how much, like 0.01,5ms"),
        ("corrupt", "share of packets that come with other content, like 0.001"),
    ):
        default = getattr(defaults, option) if defaults else None
        words = f"{link.interface}: {meaning} (default {default})" if default else meaning
        command.add_argument(f"--{prefix}{option}", default=default, help=words)


def dispatch(arguments: list[str], cluster: Cluster) -> int:
    """Run one command and return its exit code."""
    passed_on = {"kubectl": _kubectl, "exec": _exec, "enter": _enter}
    if arguments and arguments[0] in passed_on:
        passed_on[arguments[0]](arguments[1:], cluster)
    options, rest = parser().parse_known_args(arguments)
    if rest and not (options.command == "wan" and options.wan_command in ("stats", "set")):
        parser().error(f"unrecognized arguments: {' '.join(rest)}")
    options.rest = rest
    handlers = {
        "preflight": _preflight,
        "build": lambda o, c: c.build([name for name in o.only.split(",") if name]),
        "images": _images,
        "up": _up,
        "down": _down,
        "status": _status,
        "load": lambda o, c: c.load([archive_from(path) for path in o.archives]),
        "monitoring": lambda o, c: c.monitoring_up() if o.action == "up" else c.monitoring_down(),
        "kueue": lambda o, c: c.kueue_up() if o.action == "up" else c.kueue_down(),
        "logs": _logs,
        "disk": _disk,
        "wan": _wan,
    }
    result = handlers[options.command](options, cluster)
    return result if isinstance(result, int) else 0


def _preflight(options: argparse.Namespace, cluster: Cluster) -> None:
    cluster.preflight(install=options.install)
    cluster.progress.say("This machine has all that the local cluster needs.")


def _images(options: argparse.Namespace, cluster: Cluster) -> None:
    if options.of:
        print(cluster.build_images_of(options.of))
    else:
        cluster.build_images()


def _up(options: argparse.Namespace, cluster: Cluster) -> None:
    cluster.up(link_settings(vars(options)), install=options.install, project_images=not options.no_project_images)
    print(HELP.format(peer=TRANSFER_NODES[1].data_address(DATA_LINKS[0]).ip))


def link_settings(options: Mapping[str, str]) -> dict[DataLink, WanSettings]:
    """What the options of `up` say of each link."""
    first = DATA_LINKS[0]
    prefixes = {link: "" if link is first else f"{link.interface}_" for link in DATA_LINKS}
    return {link: WanSettings(**{name: options[f"{prefix}{name}"] for name in _WAN_FIELDS}) for link, prefix in prefixes.items()}


def changed_settings(options: Mapping[str, str | None]) -> dict[str, str]:
    """What the options of `wan restart` change."""
    return {name: value for name in _WAN_FIELDS if (value := options[name])}


def _down(_: argparse.Namespace, cluster: Cluster) -> None:
    lines = cluster.down()
    print("\n".join(["The cluster is down:", *(f"  {line}" for line in lines)]) if lines else "No cluster was up; nothing to remove.")


def _status(_: argparse.Namespace, cluster: Cluster) -> int:
    trouble = cluster.trouble()
    print("healthy" if trouble is None else f"not healthy: {trouble}")
    if cluster.control_plane.box.identity():
        for link, emulator in cluster.wans.items():
            wan = emulator.settings()
            running = "runs" if emulator.is_running() else "has ended"
            started = f"started with {wan.rate}, {wan.delay} each way, buffer {wan.buffer}, loss {wan.loss}"
            print(f"wide-area link of {link.interface}: {running}, {started}")
        print(f"kubeconfig (in the cluster's network): {cluster.paths.admin_kubeconfig}")
        try:
            print(shell.run(cluster.control_plane.kubectl(["get", "nodes", "-o", "wide", "--request-timeout=5s"])), end="")
        except ClusterError:
            return 1
    return 0 if trouble is None else 1


def _logs(options: argparse.Namespace, cluster: Cluster) -> int:
    logs = sorted(cluster.paths.cluster_logs.glob(f"{options.node}-*.log"))
    services = [path.stem.removeprefix(f"{options.node}-") for path in logs]
    if not options.service:
        print("\n".join(services) or f"{options.node} has no logs")
        return 0
    if options.service not in services:
        raise CommandUsageError(f"{options.node} has no log of {options.service!r}; it has {', '.join(services) or 'none'}")
    path = cluster.paths.cluster_logs / f"{options.node}-{options.service}.log"
    words = ["tail", "-n", "+1" if not options.follow else "50", *(["-f"] if options.follow else []), str(path)]
    return _become(words)


def _disk(options: argparse.Namespace, cluster: Cluster) -> None:
    node = cluster.node(options.node)
    if options.remove:
        node.remove_disk(options.name)
    else:
        print(node.make_disk(options.name, options.size))


def _wan(options: argparse.Namespace, cluster: Cluster) -> None:
    wan = cluster.wans[layout.link_named(options.link)]
    cluster.require_up()
    match options.wan_command:
        case "restart":
            wan.restart(changed_settings(vars(options)))
        case "cut":
            wan.cut([layout.node_named(name) for name in options.carrier])
        case "restore":
            wan.restore()
        case passed_on:
            _become(wan.command([passed_on, *options.rest]))


def _kubectl(arguments: list[str], cluster: Cluster) -> NoReturn:
    cluster.require_up()
    _become(cluster.control_plane.kubectl(arguments))


def _exec(arguments: list[str], cluster: Cluster) -> NoReturn:
    if len(arguments) < 3 or arguments[1] != "--":
        raise CommandUsageError("usage: cluster exec NODE -- COMMAND…")
    _become(cluster.box(arguments[0]).enter(arguments[2:]))


def _enter(arguments: list[str], cluster: Cluster) -> NoReturn:
    if len(arguments) < 2 or arguments[0] != "--":
        raise CommandUsageError("usage: cluster enter -- COMMAND…")
    cluster.require_up()
    _become(network.inside(layout.CONTROL_PLANE, arguments[1:]), cluster.environment())


def _become(words: list[str], environment: Mapping[str, str] | None = None) -> NoReturn:
    """Replace this process, so that signals, the terminal and the exit code are the command's own."""
    sys.stdout.flush()
    # Python ignores this signal, and a program would inherit that.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.execvpe(words[0], words, {**os.environ, **(environment or {})})


def main() -> None:
    """Run the command of sys.argv; failures end with a message and exit code 1 (2 for wrong usage)."""
    try:
        cluster = Cluster(Layout.from_environment(os.environ), BuildProgress())
        code = dispatch(sys.argv[1:], cluster)
    except CommandUsageError as error:
        print(f"cluster: {error}", file=sys.stderr)
        code = 2
    except ClusterError as error:
        print(f"cluster: {error}", file=sys.stderr)
        code = 1
    except BrokenPipeError:
        # Whoever read the output has gone; the interpreter must not fail again on its last flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except OSError as error:
        print(f"cluster: {error}", file=sys.stderr)
        code = 1
    except KeyboardInterrupt:
        print("\ncluster: interrupted; run the same command again, or `hack/cluster/cluster down`", file=sys.stderr)
        code = 130
    sys.exit(code)


if __name__ == "__main__":
    main()
