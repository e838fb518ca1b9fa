"""The connection that a user's kubeconfig describes, and the namespace that it names."""

from __future__ import annotations

import asyncio
import re
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
    except kube_config.ConfigException as error:
        raise KubeconfigError(f"kubeconfig {files}: {error}; `kubectl config get-contexts` lists the contexts that it has") from error
    except (OSError, ValueError, TypeError, KeyError, AttributeError, yaml.YAMLError) as error:
        raise KubeconfigError(f"kubeconfig {files} cannot be read ({type(error).__name__}: {error}): correct it or give another") from error
    token = configuration.api_key.get("BearerToken", "").strip()
    if _CONTROL.search(token):
        raise KubeconfigError(f"kubeconfig {files}: its token has control characters, which no header can carry: correct it")
    if token:
        configuration.api_key["BearerToken"] = token
    return Connection(configuration, namespace or DEFAULT_NAMESPACE)


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
