"""The first transfer: a cluster, the chart, a real directory, a TransferJob, and a comparison that does not ask the mover.

`python -m fairlead_dev.demo` needs nothing but the standard library. The last line of its output is one line of JSON.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

from fairlead_dev.boards.local import address
from fairlead_dev.checkout import CHECKOUT
from fairlead_dev.clients.kubectl import CommandError, Object
from fairlead_dev.clients.release import OPERATOR_NODE
from fairlead_dev.clients.watch import ObjectWatch
from fairlead_dev.cluster.client import LocalCluster
from fairlead_dev.demo.outcome import (
    DemoError,
    ReceiverVerdict,
    condition,
    conditions_table,
    diagnosis,
    goodput_mbps,
    is_true,
    job_seconds,
    receiver_verdict,
    result_line,
)
from fairlead_dev.demo.progress import Display, LinkSample, link_rate_mbps, megabytes, summary
from fairlead_dev.demo.sites.base import JOB, NAMESPACE, Site, SiteEnd, TreeSize
from fairlead_dev.demo.sites.local import LocalSite
from fairlead_dev.demo.sites.pods import CurrentSite, KindSite, PodSiteOptions
from fairlead_dev.trees.listing import ListingError, compare, totals

TREE = TreeSize(bytes_total=600_000_000, files=2_400)
TRANSFER_TIMEOUT_S = 900
VERDICT_TIMEOUT_S = 5
TERMINAL_INTERVAL_S, PLAIN_INTERVAL_S = 1.0, 2.0
LOOK_INTERVAL_S = 0.2
LEAST_BOARD_MINUTES = 3.0
DIFFERENCES_SHOWN = 20


class Steps:
    """Announces what is being done, and how long after the start."""

    def __init__(self) -> None:
        self._started_s = time.monotonic()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the demo began."""
        return time.monotonic() - self._started_s

    def begin(self, what: str) -> None:
        """Prints the heading of a step."""
        print(f"\n==> {what}   [{self.elapsed_s:.0f} s]", flush=True)


def make_site(options: argparse.Namespace) -> Site:
    """The cluster that the options name. Raises DemoError where an option is missing."""
    if options.cluster == "local":
        return LocalSite(CHECKOUT, monitoring=options.boards)
    if options.boards:
        raise DemoError("BOARDS=1 needs CLUSTER=local; for another cluster see docs/how-to/read-the-boards.md")
    if options.cluster == "kind":
        return KindSite(CHECKOUT)
    missing = [name for name in ("source_node", "destination_node", "images") if getattr(options, name) is None]
    if missing:
        flags = ", ".join("--" + name.replace("_", "-") for name in missing)
        raise DemoError(f"CLUSTER=current needs {flags}: two node names, and where your nodes can pull the images from")
    nodes = (options.source_node, options.destination_node)
    return CurrentSite(CHECKOUT, PodSiteOptions(*nodes, options.images, options.tag, options.storage_class, options.reuse_release))


def follow(site: Site, steps: Steps) -> tuple[Object, ReceiverVerdict | None]:
    """Shows the job until it has succeeded or failed; returns it and the receiver's verdict. Raises DemoError on a standstill."""
    with (
        ObjectWatch(site.kubectl, "transferjob", name=JOB, namespace=NAMESPACE) as jobs,
        ObjectWatch(site.kubectl, "pods", selector="fairlead.io/role=receiver", namespace=NAMESPACE) as pods,
    ):
        job = show_until_ended(site, steps, jobs)
        # The two watches are not in step: the verdict behind the job's status may still be on its way.
        deadline_s = steps.elapsed_s + VERDICT_TIMEOUT_S
        while True:
            verdict = receiver_verdict(change.object for change in pods.changes())
            if verdict is not None or is_true(job, "Failed") or steps.elapsed_s > deadline_s:
                return job, verdict
            time.sleep(LOOK_INTERVAL_S)


def show_until_ended(site: Site, steps: Steps, jobs: ObjectWatch) -> Object:
    """Shows the job as it goes on; returns the version that has succeeded or failed. Raises DemoError on a standstill."""
    display = Display()
    interval_s = TERMINAL_INTERVAL_S if sys.stdout.isatty() else PLAIN_INTERVAL_S
    deadline_s = steps.elapsed_s + TRANSFER_TIMEOUT_S
    shown_s = float("-inf")
    before: LinkSample | None = None
    while True:
        versions = jobs.changes()
        job = versions[-1].object if versions else {}
        if len({change.object["metadata"]["uid"] for change in versions}) > 1:
            raise DemoError("somebody deleted the job and made another of its name: is a second demo running on this cluster?")
        ended = is_true(job, "Succeeded") or is_true(job, "Failed")
        if ended or steps.elapsed_s - shown_s >= interval_s:
            now = site.link_sample()
            display.show(summary(job, link_rate_mbps(before, now) if before and now else None), steps.elapsed_s)
            shown_s, before = steps.elapsed_s, now
        if ended:
            return job
        if steps.elapsed_s > deadline_s:
            raise DemoError(f"the job neither succeeded nor failed within {TRANSFER_TIMEOUT_S} s")
        if not jobs.alive():
            raise DemoError("kubectl stopped watching the job; is the API server up?")
        time.sleep(LOOK_INTERVAL_S)


def show_job(site: Site, job: Object) -> None:
    """Prints the job as kubectl shows it."""
    print("\n$ kubectl get tj -n demo -o wide")
    print(site.kubectl.run("get", "transferjobs", "-o", "wide", namespace=NAMESPACE).rstrip())
    print(f"\n$ kubectl describe tj {JOB} -n demo     (its conditions and events)")
    print(conditions_table(job))
    described = site.kubectl.run("describe", "transferjob", JOB, namespace=NAMESPACE).rstrip()
    print(described[described.find("\nEvents:") + 1 :], flush=True)


def verify(site: Site, verdict: ReceiverVerdict) -> None:
    """Compares both ends by their own listings. Raises DemoError that shows the first differences."""
    source, destination = site.list_tree(SiteEnd.SOURCE), site.list_tree(SiteEnd.DESTINATION)
    differences = compare(source, destination)
    if differences:
        shown = "\n".join(f"  {difference}" for difference in differences[:DIFFERENCES_SHOWN])
        raise DemoError(f"source and destination differ in {len(differences)} places:\n{shown}")
    files, size_bytes = totals(source)
    if (files, size_bytes) != (verdict.files_total, verdict.bytes_total):
        told = f"{verdict.files_total} files and {verdict.bytes_total} bytes"
        raise DemoError(f"both ends hold {files} files and {size_bytes} bytes, but the receiver reported {told}")
    links = sum(entry.kind == "l" for entry in source.values())
    folders = sum(entry.kind == "d" for entry in source.values())
    print(
        f"  equal: {files:,} files ({megabytes(size_bytes)}; sha256, mode, mtime), {folders:,} directories (mode, mtime), {links} symlinks"
    )


def demonstrate(site: Site, steps: Steps, keep: bool) -> str:
    """Everything from the cluster to the comparison; returns the line of JSON. Raises DemoError or CommandError."""
    steps.begin("Bringing up the cluster (about 20 s; up to 25 minutes if its programs must be built first)")
    site.start()
    steps.begin("Installing the chart with Helm")
    site.install()
    steps.begin("Removing what an earlier demo left")
    site.clear()
    steps.begin(f"Writing {TREE.files:,} files, {megabytes(TREE.bytes_total)}, to the source node; volumes and claims for both ends")
    site.lay_out(TREE)
    steps.begin("kubectl apply -f hack/demo/transferjob.yaml")
    site.apply_job()
    job, verdict = follow(site, steps)
    show_job(site, job)
    if not is_true(job, "Succeeded"):
        failed = condition(job, "Failed") or {}
        raise DemoError(f"the job failed: {failed.get('reason')}: {failed.get('message')}")
    if verdict is None:
        raise DemoError("the job succeeded, but no receiver pod showed a verdict in its termination message")
    steps.begin("Comparing source and destination with find and sha256sum on both nodes")
    verify(site, verdict)
    seconds = job_seconds(job)
    rate = goodput_mbps(verdict)
    share = f", {rate / site.link_mbps:.0%} of the link" if site.link_mbps else ""
    print(f"  bulk phase {verdict.bulk_seconds:.1f} s at {rate:.1f} Mb/s{share}; whole job with probe and verification {seconds:.1f} s")
    if not keep:
        steps.begin("Removing the demo's job, files and volumes (--keep leaves them)")
        site.clear()
    return result_line(verdict, seconds, site.link_mbps, verified=True)


def draw_boards(steps: Steps) -> None:
    """Draws the boards of the demo's time and says where to look. Raises DemoError where that cannot be."""
    steps.begin("Drawing the Grafana boards with Grafana's components (a minute more the first time)")
    minutes = max(LEAST_BOARD_MINUTES, steps.elapsed_s / 60)
    command = ("make", "-s", "-C", str(CHECKOUT), "boards", f"BOARDS_FLAGS=--minutes {minutes:.1f}")
    if subprocess.run(command, check=False).returncode:
        raise DemoError("the boards could not be drawn: see above")
    print("  pictures: build/boards/*.png; again at any time with `make boards`")
    print(f"  Prometheus: hack/cluster/cluster exec {OPERATOR_NODE} -- curl -s '{address(LocalCluster(CHECKOUT))}/api/v1/query?query=up'")
    print(
        "  boards: hack/cluster/cluster kubectl get configmaps -A -l grafana_dashboard=1; into a Grafana of yours: hack/boards/import URL"
    )


def parse_options(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Moves a real directory between two nodes with a TransferJob and checks the copy.")
    parser.add_argument(
        "--cluster",
        choices=["local", "kind", "current"],
        default="local",
        help="local: this machine's own (hack/cluster); kind: made with kind and Docker; current: the current kubeconfig. "
        "kind and current are NOT tested in the project's own runs, which have neither Docker nor another cluster",
    )
    parser.add_argument("--boards", action="store_true", help="with a Prometheus beside it, and a picture of each Grafana board afterwards")
    parser.add_argument("--keep", action="store_true", help="leave the job, its files and volumes")
    current = parser.add_argument_group("CLUSTER=current (the demo's claims come from a storage class that provisions volumes)")
    current.add_argument("--source-node")
    current.add_argument("--destination-node")
    current.add_argument("--images", metavar="PREFIX", help="the images are PREFIX + fairlead-operator, -mover, -advisor; ends with a '/'")
    current.add_argument("--tag", default="dev", help="tag of the images (default: dev)")
    current.add_argument("--storage-class", help="storage class of the claims (default: the cluster's own)")
    current.add_argument(
        "--reuse-release",
        action="store_true",
        help="upgrade the Helm release that is there, with its own values, which must have the demo's namespace in hostNetwork.namespaces; "
        "without this the demo ends",
    )
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    """0 when the copy was proven equal; 1 with the reason and a diagnosis otherwise."""
    options = parse_options(arguments)
    steps = Steps()
    site: Site | None = None
    try:
        site = make_site(options)
        line = demonstrate(site, steps, options.keep)
        if options.boards:
            draw_boards(steps)
    except (CommandError, DemoError, ListingError) as error:
        print(f"\nThe demo failed after {steps.elapsed_s:.0f} s: {error}", file=sys.stderr)
        if site is not None:
            print(diagnosis(site.kubectl, NAMESPACE), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted. The cluster and the job are left as they are; running the demo again cleans up.", file=sys.stderr)
        return 130
    print(f"\n{line}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
