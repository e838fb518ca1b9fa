"""`kubectl fairlead preflight`: the checks of `fairlead preflight`, with the plugin's flags and exit codes."""

from __future__ import annotations

import secrets

from rich.text import Text

from fairlead.commands.preflight.findings import findings_of
from fairlead.commands.preflight.job import name_of
from fairlead.commands.preflight.run import PreflightError, check
from fairlead.commands.preflight.text import render
from fairlead.kube.client import KubeObject
from fairlead.plugin.cluster import Exit, PluginError, Session
from fairlead.plugin.output import Output


async def preflight(session: Session, output: Output, manifest: KubeObject, timeout_seconds: int) -> Exit:
    """Prints what was checked. Raises PluginError if the checks could not be made."""
    try:
        found = await check(session.client, manifest, session.namespace, secrets.token_hex(4), timeout_seconds)
    except PreflightError as error:
        raise PluginError(str(error)) from error
    findings = findings_of(session.namespace, name_of(manifest), found)
    if output.as_json:
        output.document(findings.to_object())
    else:
        output.show(Text(render(findings)))
    return Exit.DONE if findings.passed else Exit.FAILED
