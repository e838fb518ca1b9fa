"""The connection to the API server: plain objects in and out, typed errors, never a blocking call on the loop.

The official client's asyncio flavour supplies configuration, authentication (with token rotation) and the connection pool.
Its generated models are left alone: this operator reads and writes plain dictionaries and types them at its own edges. Its requests are
too, as they copy headers and body once more before they are sent.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode
from urllib.request import getproxies

import aiohttp
import orjson
from kubernetes.aio import config as kube_config
from kubernetes.aio.client import Configuration
from kubernetes.aio.client.rest import RESTClientObject

from fairlead.api import names
from fairlead.kube.clock import ServerClock
from fairlead.kube.errors import KubeError, UnavailableError, error_from_response

KubeObject = dict[str, Any]

MERGE_PATCH = "application/merge-patch+json"

PAGE_SIZE = 100
"""Objects of a list at a time. A page of 500 pods is 8 MB, for which there are 50 MB of objects for a moment: the memory of long-lived ones
that are made meanwhile is among theirs, and never given back."""
_WATCH_GRACE_SECONDS = 30.0
_BOOKMARK = "BOOKMARK"


class Change(NamedTuple):
    """A version of an object, from a watch. `kind` is `ADDED`, `MODIFIED` or `DELETED`."""

    kind: str
    body: KubeObject


class ClientConfigurationError(Exception):
    """Neither a usable kubeconfig nor a service account: the person who starts the operator must give one."""


@dataclass(frozen=True, slots=True)
class ResourceKind:
    """One resource type of the API server."""

    group_version: str
    plural: str
    namespaced: bool = True

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The path of one object, or of the collection without a name; every namespace's collection without a namespace."""
        root = "/api/" if "/" not in self.group_version else "/apis/"
        parts = [root + self.group_version]
        if self.namespaced and namespace is not None:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        if name is not None:
            parts.append(quote(name, safe=""))
        if subresource is not None:
            parts.append(subresource)
        return "/".join(parts)


JOBS = ResourceKind(names.API_VERSION, names.PLURAL)
POLICIES = ResourceKind(names.API_VERSION, names.POLICY_PLURAL, namespaced=False)
PATHS = ResourceKind(names.API_VERSION, names.PATH_PLURAL, namespaced=False)
DTNS = ResourceKind(names.API_VERSION, names.DTN_PLURAL, namespaced=False)
NAMESPACES = ResourceKind("v1", "namespaces", namespaced=False)
PODS = ResourceKind("v1", "pods")
SECRETS = ResourceKind("v1", "secrets")
EVENTS = ResourceKind("v1", "events")
CONFIG_MAPS = ResourceKind("v1", "configmaps")
NODES = ResourceKind("v1", "nodes", namespaced=False)
VOLUMES = ResourceKind("v1", "persistentvolumes", namespaced=False)
CLAIMS = ResourceKind("v1", "persistentvolumeclaims")
ATTACHMENTS = ResourceKind("k8s.cni.cncf.io/v1", "network-attachment-definitions")
LEASES = ResourceKind("coordination.k8s.io/v1", "leases")


async def load_configuration(kubeconfig: Path | None) -> Configuration:
    """The connection's settings: from `kubeconfig` if given, else the service account. Raises ClientConfigurationError."""
    configuration = Configuration()
    try:
        if kubeconfig is None:
            kube_config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        else:
            await kube_config.load_kube_config(  # type: ignore[no-untyped-call]
                config_file=str(kubeconfig), client_configuration=configuration
            )
    except (kube_config.ConfigException, OSError, ValueError) as error:
        where = f"kubeconfig {kubeconfig}" if kubeconfig else "service account"
        raise ClientConfigurationError(
            f"{where}: {error}. Run inside a cluster with a service account, or give --kubeconfig a readable file."
        ) from error
    configuration.retries = None
    # aiohttp would otherwise look for a proxy and for credentials in files before each request, in a thread.
    configuration.client_session_kwargs = {"trust_env": bool(getproxies())}
    return configuration


class KubeClient:
    """Requests to one API server.

    `on_write` gets the verb and resource of every request that changes something; `check_write` is called right before it is sent, and may
    raise a KubeError instead. `clock` is set right by every answer.
    """

    def __init__(
        self,
        configuration: Configuration,
        *,
        user_agent: str = names.MANAGER,
        timeout_seconds: float = 30.0,
        on_write: Callable[[str, str], None] = lambda verb, resource: None,
        check_write: Callable[[], None] = lambda: None,
        clock: ServerClock | None = None,
    ) -> None:
        self._configuration = configuration
        self._pool = RESTClientObject(configuration)
        self._session: aiohttp.ClientSession | None = None
        self._user_agent = user_agent
        self._timeout = aiohttp.ClientTimeout(total=timeout_seconds)
        self._on_write = on_write
        self._check_write = check_write
        self._clock = clock

    async def close(self) -> None:
        """Closes the connection pool."""
        if self._session is not None:
            await self._session.close()

    async def get(self, resource: ResourceKind, namespace: str | None, name: str) -> KubeObject:
        """One object as the server has it now. Raises NotFoundError and the other kinds of KubeError."""
        return await self._request("GET", resource.path(namespace, name))

    async def list_pages(
        self,
        resource: ResourceKind,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        on_version: Callable[[str], None] = lambda version: None,
    ) -> AsyncIterator[list[KubeObject]]:
        """The collection, page by page, from one consistent version of it, which `on_version` gets."""
        query = {"limit": str(PAGE_SIZE)}
        if label_selector is not None:
            query["labelSelector"] = label_selector
        if field_selector is not None:
            query["fieldSelector"] = field_selector
        while True:
            answer = await self._request("GET", resource.path(namespace), query=query)
            metadata = answer.get("metadata") or {}
            on_version(str(metadata.get("resourceVersion") or ""))
            yield answer.get("items") or []
            token = metadata.get("continue")
            if not token:
                return
            query["continue"] = token

    async def changes(
        self,
        resource: ResourceKind,
        since: str,
        seconds: int,
        *,
        namespace: str | None = None,
        field_selector: str | None = None,
        silence_seconds: float | None = None,
    ) -> AsyncIterator[Change]:
        """What becomes of the collection after version `since`, for `seconds` at most. Raises ConflictError when that is too long ago.

        With `silence_seconds` it also ends where nothing comes for so long, as on a connection that has died; the API server is asked to
        tell now and then how far it has come.
        """
        query = {"watch": "true", "resourceVersion": since, "timeoutSeconds": str(seconds)}
        if silence_seconds is not None:
            query["allowWatchBookmarks"] = "true"
        if field_selector is not None:
            query["fieldSelector"] = field_selector
        path = resource.path(namespace)
        request = f"GET {path}"
        # The server ends the watch; this ends it where the server is gone.
        limits = aiohttp.ClientTimeout(total=seconds + _WATCH_GRACE_SECONDS, sock_connect=self._timeout.total, sock_read=silence_seconds)
        try:
            # Whoever stops reading leaves an answer that has not ended: its connection is of no more use to anybody.
            with contextlib.closing(await self._send("GET", path, query=query, limits=limits)) as response:
                if response.status >= 300:
                    raise error_from_response(response.status, await response.read(), response.headers, request)
                async for line in response.content:
                    event = orjson.loads(line)
                    body = event["object"]
                    if event["type"] == "ERROR":
                        raise error_from_response(int(body.get("code") or 0), json.dumps(body).encode(), {}, request)
                    if event["type"] != _BOOKMARK:
                        yield Change(event["type"], body)
        except aiohttp.SocketTimeoutError:
            return
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise UnavailableError(f"{request}: {type(error).__name__}: {error}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise KubeError(f"{request}: an event of the watch cannot be read: {error}") from error

    async def create(self, resource: ResourceKind, namespace: str | None, body: KubeObject, *, dry_run: bool = False) -> KubeObject:
        """Creates `body`; with `dry_run` the server checks everything and keeps nothing. Raises AlreadyExistsError if the name is taken."""
        if dry_run:
            return await self._request("POST", resource.path(namespace), query={"dryRun": "All"}, body=body)
        self._on_write("create", resource.plural)
        return await self._request("POST", resource.path(namespace), body=body)

    async def merge_patch(
        self, resource: ResourceKind, namespace: str | None, name: str, body: KubeObject, *, subresource: str | None = None
    ) -> KubeObject:
        """Applies a JSON merge patch. A `resourceVersion` or `uid` within it is a precondition (ConflictError)."""
        self._on_write("patch", f"{resource.plural}/{subresource}" if subresource else resource.plural)
        return await self._request("PATCH", resource.path(namespace, name, subresource), body=body, content_type=MERGE_PATCH)

    async def delete(
        self,
        resource: ResourceKind,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_seconds: int | None = None,
    ) -> None:
        """Deletes exactly this incarnation (ConflictError if it is another one); without a UID whatever has the name."""
        known = {"uid": uid, "resourceVersion": resource_version}
        preconditions = {key: value for key, value in known.items() if value is not None}
        body: KubeObject = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions, "propagationPolicy": "Background"}
        if grace_seconds is not None:
            body["gracePeriodSeconds"] = grace_seconds
        self._on_write("delete", resource.plural)
        await self._request("DELETE", resource.path(namespace, name), body=body)

    async def _request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: KubeObject | None = None,
        content_type: str = "application/json",
    ) -> KubeObject:
        request = f"{method} {path}"
        sent_at = 0.0 if self._clock is None else self._clock.steady()
        try:
            response = await self._send(method, path, query=query, body=body, content_type=content_type, limits=self._timeout)
            if self._clock is not None:
                self._clock.note(response.headers.get("Date"), sent_at)
            data = await response.read()
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise UnavailableError(f"{request}: {type(error).__name__}: {error}") from error
        if response.status >= 300:
            raise error_from_response(response.status, data, response.headers, request)
        try:
            answer = orjson.loads(data)
        except ValueError as error:
            raise KubeError(f"{request}: the answer is not JSON", status=response.status) from error
        return answer if isinstance(answer, dict) else {}

    async def _send(
        self,
        method: str,
        path: str,
        *,
        limits: aiohttp.ClientTimeout,
        query: Mapping[str, str] | None = None,
        body: KubeObject | None = None,
        content_type: str = "application/json",
    ) -> aiohttp.ClientResponse:
        if self._session is None:
            # Not before: it belongs to the event loop that runs.
            self._session = self._pool._create_pool_manager()
        headers = {"Accept": "application/json", "Content-Type": content_type, "User-Agent": self._user_agent}
        bearer = await self._configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
        if bearer:
            headers["Authorization"] = bearer
        target = f"{path}?{urlencode(query)}" if query else path
        data = None if body is None else encoded(body)
        if method != "GET":
            # As late as possible: a process that was stopped in between must not write when it goes on.
            self._check_write()
        return await self._session.request(
            method,
            f"{self._configuration.host}{target}",
            headers=headers,
            data=data,
            timeout=limits,
            server_hostname=self._configuration.tls_server_name,
            proxy=self._configuration.proxy,
            proxy_headers=self._configuration.proxy_headers,
        )


def encoded(body: KubeObject) -> bytes:
    """An object as JSON."""
    try:
        return orjson.dumps(body)
    except TypeError:
        # Half a surrogate pair, say, which a mover put into a message.
        return json.dumps(body).encode()


@dataclass(frozen=True, slots=True)
class ConnectionFacts:
    """Server and certificates of a connection, for other clients in the process."""

    server: str
    ca_path: str | None
    insecure: bool
    certificate_path: str | None
    private_key_path: str | None


def connection_facts(configuration: Configuration) -> ConnectionFacts:
    """The connection that a loaded configuration describes, without tokens."""
    return ConnectionFacts(
        server=configuration.host,
        ca_path=configuration.ssl_ca_cert,
        insecure=not configuration.verify_ssl,
        certificate_path=configuration.cert_file,
        private_key_path=configuration.key_file,
    )
