"""Questions to a Prometheus over its HTTP API. Needs the standard library alone."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any, Final

from fairlead_dev.errors import CommandUsageError

TIMEOUT_S: Final = 30.0
Fetch = Callable[[str], bytes]
"""Gets the body of a path below the server's root, whatever its status."""


class PrometheusError(CommandUsageError):
    """The server did not answer, or refused the query."""


def over_http(address: str) -> Fetch:
    """Fetches from a server at `http://host:port[/prefix]`. Raises PrometheusError if nobody answers there."""

    def fetch(path: str) -> bytes:
        url = address.rstrip("/") + path
        try:
            with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
                body: bytes = answer.read()
        except urllib.error.HTTPError as error:
            body = error.read()
        except OSError as error:
            raise PrometheusError(f"no Prometheus answers at {address}: {error}") from error
        return body

    return fetch


def path_of(what: str, parameters: Mapping[str, str]) -> str:
    """Where the HTTP API answers a question, below the server's root."""
    return f"/api/v1/{what}?{urllib.parse.urlencode(parameters)}"


def data_of(body: bytes, asked: str) -> Any:
    """The data of an answer. Raises PrometheusError, naming what was `asked`, where it is a refusal."""
    try:
        answer = json.loads(body)
    except ValueError as error:
        raise PrometheusError(f"what answers is no Prometheus: {body[:200]!r}") from error
    if answer.get("status") != "success":
        raise PrometheusError(f"{answer.get('error')}: {asked}")
    return answer["data"]


class PrometheusApi:
    """What boards ask for."""

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch

    def instant(self, expr: str, at_s: float) -> list[dict[str, Any]]:
        """The vector of an expression at a moment in Unix time, each entry with `metric` and `value`."""
        return self._ask("query", {"query": expr, "time": f"{at_s:.3f}"})

    def range(self, expr: str, start_s: float, end_s: float, step_s: float) -> list[dict[str, Any]]:
        """The matrix of an expression, each entry with `metric` and `values`."""
        when = {"start": f"{start_s:.3f}", "end": f"{end_s:.3f}", "step": f"{step_s:g}"}
        return self._ask("query_range", {"query": expr, **when})

    def label_values(self, selector: str, label: str, start_s: float, end_s: float) -> list[str]:
        """The values of a label in the series of a selector, as Grafana asks for those of a variable."""
        when = {"start": f"{start_s:.3f}", "end": f"{end_s:.3f}"}
        values: list[str] = data_of(self._fetch(path_of(f"label/{label}/values", {"match[]": selector, **when})), selector)
        return values

    def _ask(self, what: str, parameters: Mapping[str, str]) -> list[dict[str, Any]]:
        result: list[dict[str, Any]] = data_of(self._fetch(path_of(what, parameters)), parameters["query"])["result"]
        return result
