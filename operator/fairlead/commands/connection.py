"""The connection that a user's kubeconfig describes, and the namespace that it names."""

from __future__ import annotations

import asyncio
import base64
import logging
import math
import ssl
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import yaml
from kubernetes.aio import config as kube_config
from kubernetes.aio.client import Configuration
from kubernetes.aio.config.kube_config import KubeConfigLoader, KubeConfigMerger

from fairlead.commands.credential_helper import CredentialHelper, CredentialHelperError, HelperCredentials, UnsendableError, header_word
from fairlead.kube.clock import ServerClock

DEFAULT_NAMESPACE = "default"
_SERVICE_ACCOUNT_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_UNHEARD = logging.NullHandler()
_EARLY_SECONDS = 10.0
"""How long before its expiry a token is renewed."""


class KubeconfigError(Exception):
    """No usable kubeconfig. The message names the file and the remedy."""


@dataclass(frozen=True, slots=True)
class Connection:
    """How to reach the API server, and the namespace to look in when none is given."""

    configuration: Configuration
    namespace: str


def read_connection(kubeconfig: str | None, context: str | None, environment: Mapping[str, str]) -> Connection:
    """`load_connection`, where no event loop runs."""
    return asyncio.run(load_connection(kubeconfig, context, environment))


def user_clock() -> ServerClock:
    """The API server's time for a command on a user's machine, whose own may be wrong, and which may not be Linux."""
    # Its warning is for an operator's log. Without a handler it would be on the user's terminal.
    logging.getLogger(ServerClock.__module__).addHandler(_UNHEARD)
    return ServerClock(steady=time.monotonic)


async def load_connection(kubeconfig: str | None, context: str | None, environment: Mapping[str, str]) -> Connection:
    """By `--kubeconfig`, else by KUBECONFIG, else by ~/.kube/config, else by the pod's service account. Raises KubeconfigError."""
    files = _files(kubeconfig, environment)
    return _of_service_account() if files is None else await _of_files(files, context)


def _files(kubeconfig: str | None, environment: Mapping[str, str]) -> str | None:
    """None for the pod's service account. Raises KubeconfigError."""
    files = kubeconfig or environment.get("KUBECONFIG") or str(Path("~/.kube/config").expanduser())
    if any(Path(file).expanduser().is_file() for file in files.split(":") if file):
        return files
    if kubeconfig is None and "KUBECONFIG" not in environment and _SERVICE_ACCOUNT_NAMESPACE.is_file():
        return None
    raise KubeconfigError(f"there is no kubeconfig at {files}: give --kubeconfig FILE or set KUBECONFIG")


async def _of_files(files: str, context: str | None) -> Connection:
    configuration = Configuration()
    configuration.retries = None
    renewal: _Renewal | None = None
    try:
        merger = KubeConfigMerger(files)  # type: ignore[no-untyped-call]
        loader = KubeConfigLoader(  # type: ignore[no-untyped-call]
            merger.config, active_context=context or _current_context(merger.config_files.values()), config_base_path=None
        )
        cluster, user = _entry(merger, loader, "cluster"), _entry(merger, loader, "user")
        helper = _helper_of(user, cluster)
        if helper is not None:
            renewal = _Renewal(files, helper)
            _add_credentials(user.fields, await renewal.run())
        await loader.load_and_set(configuration)  # type: ignore[no-untyped-call]
        namespace = loader.current_context["context"].get("namespace")
        _heed_environment(configuration)
    except kube_config.ConfigException as error:
        raise KubeconfigError(f"kubeconfig {files}: {error}; `kubectl config get-contexts` lists the contexts that it has") from error
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError, yaml.YAMLError) as error:
        words = " ".join(f"{type(error).__name__}: {error}".split())
        raise KubeconfigError(f"kubeconfig {files} cannot be read ({words}): correct it or give another") from error
    try:
        if "BearerToken" in configuration.api_key:
            configuration.api_key["BearerToken"] = header_word(configuration.api_key["BearerToken"])
        _check_certificates(configuration, cluster.fields, user.fields)
    except (_CertificateError, UnsendableError) as error:
        raise KubeconfigError(f"kubeconfig {files}: {error}: correct it") from error
    if renewal is not None and "BearerToken" in configuration.api_key:
        configuration.refresh_api_key_hook = renewal.renew  # type: ignore[assignment]
        # Where no moment of expiry is known, or clocks differ, the API server is the one to say it.
        middlewares = {"middlewares": (partial(renewal.ask_again, configuration),)}
        configuration.client_session_kwargs = {**(configuration.client_session_kwargs or {}), **middlewares}
    return Connection(configuration, namespace or DEFAULT_NAMESPACE)


def _current_context(files: Iterable[Mapping[str, Any]]) -> str | None:
    """That of the first file that names one, as kubectl has it; the library takes the last file's."""
    return next((named for file in files if (named := file.get("current-context"))), None)


@dataclass(frozen=True, slots=True)
class _Entry:
    """The cluster or the user that the context names; without fields where there is none. Paths in it are relative to `folder`."""

    fields: dict[str, Any]
    folder: Path


def _entry(merger: KubeConfigMerger, loader: KubeConfigLoader, kind: str) -> _Entry:
    name = loader.current_context["context"].get(kind)
    found = (each for each in merger.config.value[f"{kind}s"] if each.value["name"] == name)
    return next((_Entry(each.value[kind] or {}, Path(each.path).absolute().parent) for each in found), _Entry({}, Path()))


def _helper_of(user: _Entry, cluster: _Entry) -> CredentialHelper | None:
    """The user's credential helper, taken out of the entry: the library is not to run it too. With a token kubectl asks none."""
    entry = user.fields.pop("exec", None)
    if not entry or any(user.fields.get(field) for field in ("token", "tokenFile", "username")):
        return None
    return CredentialHelper(entry, user.folder, cluster.fields, cluster.folder)


def _add_credentials(user: dict[str, Any], credentials: HelperCredentials) -> None:
    if credentials.token is not None:
        user["token"] = credentials.token
    if credentials.certificate is not None and credentials.key is not None:
        for field, content in (("client-certificate-data", credentials.certificate), ("client-key-data", credentials.key)):
            user[field] = base64.b64encode(content.encode()).decode()


class _Renewal:
    """Runs the credential helper, and again before its token expires, or once the API server does not take it any more."""

    def __init__(self, files: str, helper: CredentialHelper) -> None:
        self._files = files
        self._helper = helper
        self._renew_at = math.inf
        self._running = asyncio.Lock()

    async def run(self) -> HelperCredentials:
        """Raises KubeconfigError."""
        try:
            credentials = await self._helper.run()
        except CredentialHelperError as error:
            raise KubeconfigError(f"kubeconfig {self._files}: {error}") from error
        self._renew_at = math.inf
        if credentials.expires_at is not None:
            now = time.time()
            left = credentials.expires_at.timestamp() - now
            # A helper that keeps its token until it expires is not asked before each of the last requests.
            self._renew_at = now + max(left - _EARLY_SECONDS, left / 2)
        return credentials

    async def renew(self, configuration: Configuration) -> None:
        """Does nothing while the token is valid."""
        async with self._running:
            if time.time() < self._renew_at:
                return
            token = (await self.run()).token
            if token is not None:
                configuration.api_key["BearerToken"] = f"Bearer {token}"

    async def ask_again(
        self, configuration: Configuration, request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """Sends the request, and once more with another token where the API server does not take this one."""
        response = await send(request)
        if response.status != HTTPStatus.UNAUTHORIZED:
            return response
        response.release()
        self._renew_at = -math.inf
        # It has the request's own time. Where that is over, the next request runs the helper, for as long as it takes.
        await self.renew(configuration)
        request.headers["Authorization"] = configuration.api_key["BearerToken"]
        return await send(request)


class _CertificateError(Exception):
    """A certificate or a key cannot be used. The message names the field, and the file."""


def _check_certificates(configuration: Configuration, cluster: Mapping[str, Any], user: Mapping[str, Any]) -> None:
    """The client would otherwise fail on them with words that name no file. Raises _CertificateError."""

    def shown(entry: Mapping[str, Any], field: str, file: str | None) -> str:
        # What the kubeconfig holds itself is in a file that its user does not know.
        return f"{field}-data" if f"{field}-data" in entry else f"{field} {file}" if file else f"{field}, which is missing,"

    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if configuration.ssl_ca_cert:
        authority = shown(cluster, "certificate-authority", configuration.ssl_ca_cert)
        try:
            tls.load_verify_locations(configuration.ssl_ca_cert)
        except (OSError, ValueError) as error:
            raise _CertificateError(f"{authority} cannot be used ({error})") from error
    if configuration.cert_file:
        certificate, key = shown(user, "client-certificate", configuration.cert_file), shown(user, "client-key", configuration.key_file)
        try:
            tls.load_cert_chain(configuration.cert_file, configuration.key_file, _refuse_password)
        except (OSError, ValueError) as error:
            raise _CertificateError(f"{certificate} with {key} cannot be used ({error})") from error


def _refuse_password() -> str:
    """The TLS library would ask for it on the terminal, as often as the key is read."""
    raise ValueError("the key is encrypted, and kubectl takes none that is")


def _of_service_account() -> Connection:
    configuration = Configuration()
    configuration.retries = None
    try:
        kube_config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    except kube_config.ConfigException as error:
        raise KubeconfigError(f"the pod's service account cannot be used: {error}; give --kubeconfig FILE") from error
    _heed_environment(configuration)
    return Connection(configuration, _SERVICE_ACCOUNT_NAMESPACE.read_text(encoding="utf-8").strip())


def _heed_environment(configuration: Configuration) -> None:
    """The environment's proxy is used, unless the kubeconfig names one, and nothing else of it.

    Left to itself, aiohttp would also send what ~/.netrc has for the host, or fail if there is a token besides.
    """
    configuration.client_session_kwargs = {"trust_env": False}
    server = urlsplit(configuration.host)
    proxy = getproxies().get(server.scheme)
    if configuration.proxy is None and proxy and not proxy_bypass(server.hostname or ""):
        configuration.proxy = proxy if "://" in proxy else f"http://{proxy}"
