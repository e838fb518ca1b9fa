"""An API server of a few objects in memory, for tests of the plugin that need its words alone."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from plugin_objects import NAMESPACE, SINCE

JOBS = f"/apis/fairlead.io/v1alpha1/namespaces/{NAMESPACE}/transferjobs"

Answer = tuple[int, dict[str, Any]]
Step = tuple[str, dict[str, Any]]
"""What a watch tells: `ADDED`, `MODIFIED` or `DELETED`, and the object."""


class StubApi:
    """Objects by the path of their collection. `steps` are what the first watch tells, one after the other, before it stays silent."""

    def __init__(self, objects: dict[str, list[dict[str, Any]]], steps: list[Step]) -> None:
        self.objects = objects
        self.steps = steps
        self.refusals: dict[str, Answer] = {}
        """Answers of another kind, by method."""
        self.refused_objects: dict[str, Answer] = {}
        """Likewise to GET, by the object's name."""
        self.stumbles: dict[str, list[Answer | None]] = {}
        """Answers to the first requests of a method that are no watch; None is the usual one."""
        self.created_status: dict[str, Any] = {}
        """The status that jobs have at once."""
        self.authorizations: list[str | None] = []
        """What each request brought to say who asks."""
        self.clock: Callable[[], float] = time.time
        """By which its answers are dated."""
        self.accepted: str | None = None
        """What they have to bring, if anything."""
        self.over = threading.Event()

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: dict[str, Any]) -> Answer:
        """The status code and the object of one request that is not a watch."""
        if (stumbles := self.stumbles.get(method)) and (stumble := stumbles.pop(0)) is not None:
            return stumble
        if method in self.refusals:
            return self.refusals[method]
        if method == "POST":
            name = body["metadata"].get("name") or f"{body['metadata']['generateName']}x1y2z"
            metadata = {**body["metadata"], "name": name, "namespace": NAMESPACE, "uid": f"uid-{name}", "creationTimestamp": SINCE}
            created = {**body, "metadata": metadata, "status": self.created_status}
            if "dryRun" not in query:
                self.objects.setdefault(path, []).append(created)
            return 201, created
        folder, name = _place(path)
        if name is None:
            return 200, {"metadata": {"resourceVersion": "1"}, "items": self.objects.get(folder, [])}
        if method == "GET" and name in self.refused_objects:
            return self.refused_objects[name]
        collection = self.objects.get(folder, [])
        found = next((each for each in collection if each["metadata"]["name"] == name), None)
        if found is None:
            return refused(404, "NotFound", f"{name} not found")
        if method == "PATCH":
            found["spec"] |= body["spec"]
        if method == "DELETE":
            collection.remove(found)
        return 200, found


def _place(path: str) -> tuple[str, str | None]:
    """The collection, and the name of the object in it if the path has one."""
    parts = path.split("/")
    kind = 3 if parts[1] == "api" else 4
    kind += 2 if parts[kind] == "namespaces" and len(parts) > kind + 2 else 0
    return "/".join(parts[: kind + 1]), parts[kind + 1] if len(parts) > kind + 1 else None


def refused(code: int, reason: str, message: str) -> Answer:
    return code, {"kind": "Status", "code": code, "reason": reason, "message": message}


class _Handler(BaseHTTPRequestHandler):
    api: StubApi

    def _handle(self) -> None:
        parts = urlsplit(self.path)
        query = parse_qs(parts.query)
        self.api.authorizations.append(self.headers.get("Authorization"))
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else {}
        is_known = self.api.accepted in (None, self.headers.get("Authorization"))
        if is_known and "watch" in query:
            self._watch()
            return
        unknown = refused(401, "Unauthorized", "Unauthorized")
        status, found = self.api.answer(self.command, parts.path, query, body) if is_known else unknown
        data = json.dumps(found).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PATCH = do_DELETE = _handle  # noqa: N815

    def _watch(self) -> None:
        self.send_response(200)
        self.end_headers()
        while self.api.steps:
            kind, changed = self.api.steps.pop(0)
            self.wfile.write(json.dumps({"type": kind, "object": changed}).encode() + b"\n")
        self.wfile.flush()
        self.api.over.wait()

    def date_time_string(self, timestamp: float | None = None) -> str:
        return super().date_time_string(self.api.clock() if timestamp is None else timestamp)

    def log_message(self, *_: object) -> None:
        """Nothing: standard error is what tests read."""


@contextmanager
def stub_api(folder: Path, *steps: Step, **objects: list[dict[str, Any]]) -> Iterator[tuple[StubApi, Path]]:
    """The server, and a kubeconfig for it in `folder`. `jobs` are those of the namespace; other kinds go by their plural."""
    cluster = {f"/apis/fairlead.io/v1alpha1/{plural}": found for plural, found in objects.items() if plural != "jobs"}
    api = StubApi({JOBS: objects.get("jobs", []), **cluster}, list(steps))
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"api": api}))
    server.daemon_threads = True
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    kubeconfig = folder / "kubeconfig"
    url = f"http://127.0.0.1:{server.server_address[1]}"
    parts = {
        "clusters": [{"name": "stub", "cluster": {"server": url}}],
        "users": [{"name": "user", "user": {}}],
        "contexts": [{"name": "stub", "context": {"cluster": "stub", "user": "user", "namespace": NAMESPACE}}],
    }
    kubeconfig.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": "stub", **parts}))
    try:
        yield api, kubeconfig
    finally:
        api.over.set()
        server.shutdown()
        serving.join()
        server.server_close()
