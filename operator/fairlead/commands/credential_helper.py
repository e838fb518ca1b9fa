"""The program that a kubeconfig names for credentials (`users[].user.exec`), by client.authentication.k8s.io as kubectl runs it.

The official client's own goes on without credentials where the program fails, hides what it says, and runs it once.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

_CLUSTER_FIELDS = ("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url", "disable-compression")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_EXTENSION = "client.authentication.k8s.io/exec"


class CredentialHelperError(Exception):
    """The program gives no credentials. The message names it."""


@dataclass(frozen=True, slots=True)
class HelperCredentials:
    """What the program answered: a token, or a certificate with its key in PEM, or both."""

    token: str | None = None
    certificate: str | None = None
    key: str | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class CredentialHelper:
    """The program. Paths are relative to the folder of the kubeconfig that names it."""

    entry: Mapping[str, Any]
    folder: Path
    cluster: Mapping[str, Any]
    cluster_folder: Path

    async def run(self) -> HelperCredentials:
        """Runs it to its end; what it writes to standard error is for the user. Raises CredentialHelperError."""
        is_interactive = self._is_interactive()
        try:
            command = [self._command(), *map(str, self.entry.get("args") or ())]
            environment = {str(each["name"]): str(each["value"]) for each in self.entry.get("env") or ()}
            environment = {**os.environ, **environment, "KUBERNETES_EXEC_INFO": json.dumps(self._info(is_interactive))}
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise self._failure(f"cannot be run ({type(error).__name__}: {error}): correct the kubeconfig") from error
        return self._credentials(await self._output(command, environment, is_interactive))

    def _command(self) -> str:
        command = str(self.entry["command"])
        return str(self.folder / command) if "/" in command else command

    def _is_interactive(self) -> bool:
        mode, has_terminal = self.entry.get("interactiveMode") or "IfAvailable", os.isatty(0)
        if mode == "Always" and not has_terminal:
            raise self._failure("asks for something, and standard input is no terminal: run this on one")
        return mode != "Never" and has_terminal

    def _info(self, is_interactive: bool) -> dict[str, Any]:
        spec: dict[str, Any] = {"interactive": is_interactive}
        if self.entry.get("provideClusterInfo"):
            spec["cluster"] = self._cluster_info()
        return {"apiVersion": self.entry["apiVersion"], "kind": "ExecCredential", "spec": spec}

    def _cluster_info(self) -> dict[str, Any]:
        info = {field: self.cluster[field] for field in _CLUSTER_FIELDS if field in self.cluster}
        authority = self.cluster.get("certificate-authority-data")
        if authority is None and self.cluster.get("certificate-authority"):
            content = (self.cluster_folder / self.cluster["certificate-authority"]).read_bytes()
            authority = base64.b64encode(content).decode()
        info |= {"certificate-authority-data": authority} if authority is not None else {}
        extensions = self.cluster.get("extensions") or ()
        own = next((each["extension"] for each in extensions if each["name"] == _EXTENSION), None)
        return info | ({"config": own} if own is not None else {})

    async def _output(self, command: list[str], environment: Mapping[str, str], is_interactive: bool) -> bytes:
        try:
            process = await asyncio.create_subprocess_exec(
                *command, env=environment, stdin=None if is_interactive else asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE
            )
        except (OSError, ValueError) as error:
            hint = " ".join(str(self.entry.get("installHint") or "").split())
            raise self._failure(f"cannot be run ({error}): install it, or correct the kubeconfig{'; ' if hint else ''}{hint}") from error
        try:
            output, _ = await process.communicate()
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if process.returncode:
            raise self._failure(f"failed with exit code {process.returncode}: run it yourself to see why, or choose another --context")
        return output

    def _credentials(self, output: bytes) -> HelperCredentials:
        try:
            answer = json.loads(output)
            status, version = answer.get("status") or {}, answer.get("apiVersion")
            if version != self.entry["apiVersion"]:
                raise ValueError(f"its apiVersion is {version}, and the kubeconfig's {self.entry['apiVersion']}")
            found = HelperCredentials(
                token=header_word(status.get("token") or "") or None,
                certificate=status.get("clientCertificateData") or None,
                key=status.get("clientKeyData") or None,
                expires_at=_moment(status.get("expirationTimestamp")),
            )
            if (found.token is None and found.certificate is None) or (found.certificate is None) != (found.key is None):
                raise ValueError("its status has neither a token nor a certificate with its key")
        except (UnsendableError, ValueError, TypeError, AttributeError) as error:
            # The answer itself may be half a secret.
            what = f"answers what is no ExecCredential ({error})"
            raise self._failure(f"{what}: correct the kubeconfig, or install another version") from error
        return found

    def _failure(self, what: str) -> CredentialHelperError:
        return CredentialHelperError(f"the credential helper {self.entry.get('command')} {what}")


class UnsendableError(Exception):
    """A token cannot be sent."""


def header_word(token: str) -> str:
    """Without the line break that files end with. Raises UnsendableError."""
    word = token.strip()
    if _CONTROL.search(word):
        raise UnsendableError("its token has control characters, which no header can carry")
    return word


def _moment(text: str | None) -> datetime | None:
    if not text:
        return None
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
