"""The connection that a user's kubeconfig describes, and the namespace that it names."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import yaml
from kubernetes.aio import config as kube_config
from kubernetes.aio.client import Configuration
from kubernetes.aio.config.kube_config import KubeConfigLoader, KubeConfigMerger

DEFAULT_NAMESPACE = "default"
_SERVICE_ACCOUNT_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class KubeconfigError(Exception):
    """No usable kubeconfig. The message names the file and the remedy."""


@dataclass(frozen=True, slots=True)
class Connection:
    """How to reach the API server, and the namespace to look in when none is given."""

    configuration: Configuration
    namespace: str


def read_connection(kubeconfig: str | None, context: str | None, environment: Mapping[str, str]) -> Connection:
    """By `--kubeconfig`, else by KUBECONFIG, else by ~/.kube/config, else by the pod's service account. Raises KubeconfigError."""
    files = kubeconfig or environment.get("KUBECONFIG") or str(Path("~/.kube/config").expanduser())
    if any(Path(file).expanduser().is_file() for file in files.split(":") if file):
        return _of_files(files, context)
    if kubeconfig is None and "KUBECONFIG" not in environment and _SERVICE_ACCOUNT_NAMESPACE.is_file():
        return _of_service_account()
    raise KubeconfigError(f"there is no kubeconfig at {files}: give --kubeconfig FILE or set KUBECONFIG")


def _of_files(files: str, context: str | None) -> Connection:
    configuration = Configuration()
    configuration.retries = None
    try:
        merger = KubeConfigMerger(files)  # type: ignore[no-untyped-call]
        loader = KubeConfigLoader(  # type: ignore[no-untyped-call]
            merger.config, active_context=context or _current_context(merger.config_files.values()), config_base_path=None
        )
        asyncio.run(loader.load_and_set(configuration))  # type: ignore[no-untyped-call]
        namespace = loader.current_context["context"].get("namespace")
        _heed_environment(configuration)
        cluster, user = _entry(merger, loader, "cluster"), _entry(merger, loader, "user")
    except kube_config.ConfigException as error:
        raise KubeconfigError(f"kubeconfig {files}: {error}; `kubectl config get-contexts` lists the contexts that it has") from error
    except (OSError, ValueError, TypeError, KeyError, AttributeError, yaml.YAMLError) as error:
        raise KubeconfigError(f"kubeconfig {files} cannot be read ({type(error).__name__}: {error}): correct it or give another") from error
    token = configuration.api_key.get("BearerToken", "").strip()
    if _CONTROL.search(token):
        raise KubeconfigError(f"kubeconfig {files}: its token has control characters, which no header can carry: correct it")
    if token:
        configuration.api_key["BearerToken"] = token
    try:
        _check_certificates(configuration, cluster, user)
    except _CertificateError as error:
        raise KubeconfigError(f"kubeconfig {files}: {error}: correct it") from error
    return Connection(configuration, namespace or DEFAULT_NAMESPACE)


def _entry(merger: KubeConfigMerger, loader: KubeConfigLoader, kind: str) -> Mapping[str, Any]:
    """The cluster or the user that the context names; empty where there is none."""
    name = loader.current_context["context"].get(kind)
    return next((each.value[kind] or {} for each in merger.config.value[f"{kind}s"] if each.value["name"] == name), {})


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


def _current_context(files: Iterable[Mapping[str, Any]]) -> str | None:
    """That of the first file that names one, as kubectl has it; the library takes the last file's."""
    return next((named for file in files if (named := file.get("current-context"))), None)


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
