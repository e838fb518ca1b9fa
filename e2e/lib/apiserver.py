"""kubectl's questions asked of the API server itself: kubectl is a process, a connection and a look at every kind for each of them."""

from __future__ import annotations

import codecs
import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

import urllib3
from kubernetes.client.rest import RESTClientObject
from kubernetes.config import new_client_from_config_dict

from e2e.lib.waiting import WaitedTooLongError, wait_until
from fairlead_dev.clients.kubectl import REQUEST_TIMEOUT_S, CommandError, Kubectl, Object

_DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_FIELD_MANAGER = "fairlead-dev"
_LOOK_INTERVAL_S = 0.2


@dataclass(frozen=True, slots=True)
class _Kind:
    group: str
    version: str
    plural: str
    namespaced: bool

    def path(self, namespace: str | None, name: str | None = None) -> str:
        """The path of a collection, of every namespace where none is given; or of one object, in the namespace `default` without one."""
        words = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if self.namespaced and (namespace or name):
            words += ["namespaces", namespace or "default"]
        words += [self.plural, *([name] if name else [])]
        return "/" + "/".join(quote(word, safe=".") for word in words)


class ApiServer:
    """An API server over connections that are kept. May be used by several threads. Errors are a CommandError, as of kubectl."""

    def __init__(self, address: str, pool: urllib3.PoolManager) -> None:
        self._address, self._pool = address, pool
        self._kinds: dict[str, _Kind] = {}

    def ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        content: str = "application/json",
        accept: str = "application/json",
        **query: str | None,
    ) -> Object:
        """The object that the server answers with. `body` is one of the media type `content`; what is None in the query is left out."""
        headers = {"Accept": accept, **({} if body is None else {"Content-Type": content})}
        data = None if body is None else json.dumps(body)
        url = f"{self._address}{path}{_encoded(query)}"
        try:
            answer = self._pool.request(method, url, body=data, headers=headers, timeout=REQUEST_TIMEOUT_S)
        except urllib3.exceptions.HTTPError as error:
            raise CommandError((method, path), 1, "", f"no answer of the API server: {error}") from error
        try:
            value = json.loads(answer.data)
        except json.JSONDecodeError:
            value = {"message": answer.data.decode(errors="replace")}
        if answer.status >= 400:
            reason = value.get("reason", answer.reason)
            raise CommandError((method, path), answer.status, "", f"Error from server ({reason}): {value.get('message')}")
        if not isinstance(value, dict):
            raise TypeError(f"the API server answered with a {type(value).__name__} where an object was expected")
        return value

    def open(self, path: str, **query: str | None) -> urllib3.BaseHTTPResponse:
        """An answer to GET that is read as it comes. Raises urllib3's HTTPError, as reading it does."""
        url = f"{self._address}{path}{_encoded(query)}"
        timeout = urllib3.Timeout(connect=REQUEST_TIMEOUT_S, read=None)
        return self._pool.request("GET", url, headers={"Accept": "application/json"}, preload_content=False, timeout=timeout)

    def kind(self, name: str) -> _Kind:
        """The kind that kubectl knows by this name, in any letters: its plural, its singular, the kind, a short name."""
        word = name.lower()
        if word not in self._kinds:
            self._kinds = self._discovered()
        if word not in self._kinds:
            raise _no_such_kind(name)
        return self._kinds[word]

    def _discovered(self) -> dict[str, _Kind]:
        found: dict[str, _Kind] = {}
        for path in ("/api", "/apis"):
            for group in self.ask("GET", path, accept=_DISCOVERY)["items"]:
                # The first version is the one that the server prefers; of a name in two groups kubectl takes the first.
                version = group["versions"][0]
                for each in version["resources"]:
                    names = (each["resource"], each["singularResource"], each["responseKind"]["kind"].lower(), *each.get("shortNames", ()))
                    kind = _Kind(group["metadata"].get("name", ""), version["version"], each["resource"], each["scope"] == "Namespaced")
                    for name in names:
                        found.setdefault(name, kind)
        return found


class _ServerStream:
    """A watch's answer as text. It ends where the API server ends it, or refuses it."""

    def __init__(self, server: ApiServer, path: str, query: Mapping[str, str | None]) -> None:
        self._server, self._path, self._query = server, path, query
        self._lock = threading.Lock()
        self._ended = False
        self._answer: urllib3.BaseHTTPResponse | None = None

    def __iter__(self) -> Iterator[str]:
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        answer = None
        try:
            answer = self._server.open(self._path, watch="true", **self._query)
            with self._lock:
                self._answer = None if self._ended else answer
            if answer.status == 200 and self._answer is not None:
                yield from map(decoder.decode, answer.stream(1 << 16))
        except urllib3.exceptions.HTTPError:
            return
        finally:
            with self._lock:
                self._answer = None
                if answer is not None:
                    answer.close()

    def end(self) -> None:
        """Ends the stream, also while another thread waits for more of it."""
        with self._lock:
            self._ended = True
            if isinstance(self._answer, urllib3.HTTPResponse):
                # The thread that reads may just have come to the stream's end, where urllib3 closes and releases the connection.
                with suppress(OSError, RuntimeError, ValueError):
                    self._answer.shutdown()


@dataclass(frozen=True, slots=True)
class DirectKubectl(Kubectl):
    """kubectl that asks the API server itself for whatever is about objects; other commands are kubectl's."""

    server: ApiServer

    def get(self, kind: str, name: str, namespace: str | None = None) -> Object | None:
        try:
            return self.server.ask("GET", self.server.kind(kind).path(namespace, name))
        except CommandError as error:
            if error.returncode == 404:
                return None
            raise

    def list(self, kind: str, namespace: str | None = None, selector: str = "") -> list[Object]:
        try:
            found = self.server.ask("GET", self.server.kind(kind).path(namespace), labelSelector=selector or None)
        except CommandError as error:
            # Of a namespace that is not there it would be empty: the definition is gone.
            raise _no_such_kind(kind) if error.returncode == 404 else error from None
        # In a list the server leaves out what is the same for all of it.
        both = {"apiVersion": found["apiVersion"], "kind": str(found["kind"]).removesuffix("List")}
        return [{**both, **item} for item in found["items"]]

    def create(self, made: Mapping[str, Any]) -> None:
        kind, namespace, _ = self._place(made)
        self.server.ask("POST", kind.path(namespace), made, fieldManager=_FIELD_MANAGER)

    def apply(self, *objects: Mapping[str, Any]) -> None:
        for each in objects:
            kind, namespace, name = self._place(each)
            path = kind.path(namespace, name)
            self.server.ask("PATCH", path, each, content="application/apply-patch+yaml", fieldManager=_FIELD_MANAGER, force="true")

    def patch(self, kind: str, name: str, patch: Mapping[str, Any], namespace: str | None = None) -> None:
        self.server.ask("PATCH", self.server.kind(kind).path(namespace, name), patch, content="application/merge-patch+json")

    def delete(self, kind: str, names: Iterable[str], namespace: str | None = None, wait_s: float | None = 60) -> None:
        going: dict[str, str] = {}
        for name in names:
            found = self.get(kind, name, namespace)
            if found is not None:
                going[name] = str(found["metadata"]["uid"])
                self._delete(self.server.kind(kind).path(namespace, name))
        self._wait_gone(kind, going, namespace, wait_s)

    def watch(self, kind: str, namespace: str, *, name: str | None = None, selector: str = "") -> _ServerStream:
        query = {"fieldSelector": None if name is None else f"metadata.name={name}", "labelSelector": selector or None}
        return _ServerStream(self.server, self.server.kind(kind).path(namespace), query)

    def _place(self, thing: Mapping[str, Any]) -> tuple[_Kind, str | None, str]:
        return self.server.kind(thing["kind"]), thing["metadata"].get("namespace", "default"), thing["metadata"]["name"]

    def _delete(self, path: str) -> None:
        try:
            self.server.ask("DELETE", path, {"propagationPolicy": "Background"})
        except CommandError as error:
            if error.returncode != 404:
                raise

    def _wait_gone(self, kind: str, uids: Mapping[str, str], namespace: str | None, wait_s: float | None) -> None:
        if wait_s is None:
            return
        try:
            wait_until(
                lambda: not any(self._is_there(kind, name, namespace, uid) for name, uid in uids.items()),
                f"{kind} {', '.join(uids)} gone",
                wait_s,
                _LOOK_INTERVAL_S,
            )
        except WaitedTooLongError as error:
            raise CommandError(("DELETE", kind, *uids), 1, "", str(error)) from error

    def _is_there(self, kind: str, name: str, namespace: str | None, uid: str) -> bool:
        found = self.get(kind, name, namespace)
        return found is not None and found["metadata"]["uid"] == uid


def direct(kubectl: Kubectl) -> DirectKubectl:
    """The cluster of a kubectl, which must be one that this process can reach too. Raises CommandError."""
    shown = json.loads(kubectl.run("config", "view", "--raw", "--minify", "--flatten", "-o", "json"))
    configuration = new_client_from_config_dict(shown).configuration  # type: ignore[no-untyped-call]  # the library has no types here
    pool = RESTClientObject(configuration).pool_manager
    return DirectKubectl(kubectl.prefix, ApiServer(configuration.host, pool))


def _no_such_kind(name: str) -> CommandError:
    return CommandError(("GET", "/apis"), 1, "", f'the server doesn\'t have a resource type "{name}"')


def _encoded(query: Mapping[str, str | None]) -> str:
    given = {name: value for name, value in query.items() if value is not None}
    return f"?{urlencode(given)}" if given else ""
