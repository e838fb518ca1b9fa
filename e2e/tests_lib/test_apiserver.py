"""The API server asked without kubectl: the same objects, absences and errors, and watches that end when they are left."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import urllib3
from e2e.lib.apiserver import ApiServer, DirectKubectl
from e2e.lib.waiting import wait_until

from fairlead_dev.clients.kubectl import CommandError
from fairlead_dev.clients.watch import ObjectWatch

POD = {"responseKind": {"kind": "Pod"}, "resource": "pods", "singularResource": "pod", "shortNames": ["po"], "scope": "Namespaced"}
NODE = {"responseKind": {"kind": "Node"}, "resource": "nodes", "singularResource": "node", "shortNames": ["no"], "scope": "Cluster"}
EVENT = {"responseKind": {"kind": "Event"}, "resource": "events", "singularResource": "event", "scope": "Namespaced"}
JOB = {
    "responseKind": {"kind": "TransferJob"},
    "resource": "transferjobs",
    "singularResource": "transfer-job",
    "shortNames": ["tj"],
    "scope": "Namespaced",
}
KINDS = {
    "/api": [{"metadata": {}, "versions": [{"version": "v1", "resources": [POD, NODE, EVENT]}]}],
    "/apis": [
        {"metadata": {"name": "events.k8s.io"}, "versions": [{"version": "v1", "resources": [EVENT]}]},
        {
            "metadata": {"name": "fairlead.io"},
            "versions": [{"version": "v1alpha1", "resources": [JOB]}, {"version": "v1", "resources": []}],
        },
    ],
}
GONE = (404, {"kind": "Status", "reason": "NotFound", "message": "not found"})
Answer = Callable[[str, str, Any], tuple[int, Any]]


@contextmanager
def server(answer: Answer) -> Iterator[tuple[DirectKubectl, list[str]]]:
    """A kubectl of a server that knows the kinds above and otherwise answers as told; and the requests so far."""
    asked: list[str] = []
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer_it(self) -> None:
            path = urlsplit(self.path).path
            length = int(self.headers.get("Content-Length", 0))
            body = json.loads(self.rfile.read(length)) if length else None
            asked.append(f"{self.command} {self.path}")
            if "watch" in parse_qs(urlsplit(self.path).query):
                self.stream(answer(self.command, path, body)[1])
                return
            code, found = (200, {"items": KINDS[path]}) if path in KINDS else answer(self.command, path, body)
            text = json.dumps(found).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def stream(self, events: list[Any]) -> None:
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for event in events:
                line = (json.dumps(event, ensure_ascii=False) + "\n").encode()
                # Within a character of two bytes too.
                for piece in (line[:-5], line[-5:]):
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.flush()
            over.wait(60)
            self.close_connection = True

        do_GET = do_POST = do_PATCH = do_DELETE = answer_it  # noqa: N815 - the library looks for these names

        def log_message(self, *_: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield DirectKubectl(("false",), ApiServer(f"http://127.0.0.1:{http.server_port}", urllib3.PoolManager())), asked
    finally:
        over.set()
        http.shutdown()
        thread.join()
        http.server_close()


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("pods", "/api/v1/namespaces/demo/pods/a"),
        ("Pod", "/api/v1/namespaces/demo/pods/a"),
        ("no", "/api/v1/nodes/a"),
        ("events", "/api/v1/namespaces/demo/events/a"),
        ("TransferJob", "/apis/fairlead.io/v1alpha1/namespaces/demo/transferjobs/a"),
        ("tj", "/apis/fairlead.io/v1alpha1/namespaces/demo/transferjobs/a"),
    ],
)
def test_kinds_have_the_names_that_kubectl_takes(kind: str, path: str) -> None:
    with server(lambda *_: (200, {"metadata": {"name": "a"}})) as (kubectl, asked):
        assert kubectl.get(kind, "a", "demo") == {"metadata": {"name": "a"}}
        assert asked[-1] == f"GET {path}"


def test_an_absent_object_is_none_and_an_absent_kind_an_error() -> None:
    with server(lambda *_: GONE) as (kubectl, _):
        assert kubectl.get("pod", "a", "demo") is None
        with pytest.raises(CommandError, match='doesn\'t have a resource type "dtn"'):
            kubectl.get("dtn", "a")
        with pytest.raises(CommandError, match='doesn\'t have a resource type "tj"'):
            kubectl.list("tj", "demo")


def test_the_items_of_a_list_have_their_kind() -> None:
    found = {"apiVersion": "v1", "kind": "PodList", "items": [{"metadata": {"name": "a"}}]}
    with server(lambda *_: (200, found)) as (kubectl, asked):
        assert kubectl.list("pods", selector="role=sender") == [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}]
        assert asked[-1] == "GET /api/v1/pods?labelSelector=role%3Dsender"


def test_a_refusal_tells_the_servers_reason_and_words() -> None:
    refusal = (403, {"reason": "Forbidden", "message": "quota exceeded"})
    with server(lambda *_: refusal) as (kubectl, _), pytest.raises(CommandError) as caught:
        kubectl.create({"kind": "Pod", "metadata": {"name": "a", "namespace": "demo"}})
    assert caught.value.stderr == "Error from server (Forbidden): quota exceeded"


def test_a_server_that_is_not_there_is_an_error() -> None:
    with server(lambda *_: GONE) as (kubectl, _):
        pass
    with pytest.raises(CommandError, match="no answer of the API server"):
        kubectl.get("pod", "a", "demo")


def test_a_deletion_waits_until_that_object_is_gone_whatever_takes_its_name() -> None:
    uids = iter(("first", "first", "second"))

    def answer(method: str, path: str, body: Any) -> tuple[int, Any]:
        return 200, ({"metadata": {"uid": next(uids)}} if method == "GET" else {})

    with server(answer) as (kubectl, asked):
        kubectl.delete("pod", ["a"], "demo")
        assert [line.split()[0] for line in asked if "pods" in line] == ["GET", "DELETE", "GET", "GET"]


def test_a_watch_gives_what_comes_and_ends_when_it_is_left() -> None:
    events = [{"type": kind, "object": {"note": "ü", "metadata": {"uid": "u", "resourceVersion": kind}}} for kind in ("ADDED", "MODIFIED")]
    error = {"type": "ERROR", "object": {"code": 410}}
    with server(lambda *_: (200, [*events, error])) as (kubectl, asked):
        with ObjectWatch(kubectl, "tj", namespace="demo", name="a") as watch:
            wait_until(lambda: len(watch.changes()) >= 2, "both versions", interval_s=0.02)
            assert [(change.kind, change.object["note"]) for change in watch.changes()] == [("ADDED", "ü"), ("MODIFIED", "ü")]
            assert watch.alive()
        assert not watch.alive()
        assert asked[-1] == "GET /apis/fairlead.io/v1alpha1/namespaces/demo/transferjobs?watch=true&fieldSelector=metadata.name%3Da"


@pytest.mark.parametrize("leaves", ["socket closed", "connection released", "answer closed"])
def test_a_watch_whose_stream_comes_to_its_end_can_be_ended_at_that_moment(leaves: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[urllib3.BaseHTTPResponse] = []
    opens = ApiServer.open

    def keeping(self: ApiServer, path: str, **query: str | None) -> urllib3.BaseHTTPResponse:
        opened.append(opens(self, path, **query))
        return opened[-1]

    monkeypatch.setattr(ApiServer, "open", keeping)
    with server(lambda *_: (200, [{"type": "ADDED"}])) as (kubectl, _):
        stream = kubectl.watch("pods", "demo")
        chunks = iter(stream)
        next(chunks)
        answer: Any = opened[0]
        # As urllib3 leaves them when it has read the last of a stream, before the thread that reads goes on.
        ends = {
            "socket closed": lambda: os.close(answer.connection.sock.detach()),
            "connection released": answer.release_conn,
            "answer closed": answer.close,
        }
        ends[leaves]()
        stream.end()
