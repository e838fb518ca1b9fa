"""`kubectl fairlead why`: reads, concludes, prints."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from fairlead.commands.explain.account import account_of
from fairlead.commands.explain.facts import ExplainError
from fairlead.plugin.cluster import Exit, PluginError, Session
from fairlead.plugin.output import Output
from fairlead.plugin.why.cause import cause_of, lesser_troubles
from fairlead.plugin.why.evidence import JobEvidence, read_evidence
from fairlead.plugin.why.text import cap_line, decision_line, render


async def show_cause(session: Session, output: Output, name: str) -> Exit:
    """Prints why a job stands where it stands. Raises PluginError if it cannot be read."""
    try:
        evidence = await read_evidence(session.client, session.server, session.namespace, name)
    except ExplainError as error:
        raise PluginError(str(error)) from error
    now = session.clock.now()
    if output.as_json:
        output.document(document_of(evidence, now))
    else:
        output.show(render(account_of(evidence.facts), cause_of(evidence, now), lesser_troubles(evidence, now), now))
    return Exit.DONE


def document_of(evidence: JobEvidence, now: datetime) -> dict[str, Any]:
    """The answer for programs (docs/reference/kubectl-fairlead.md)."""
    account, cause = account_of(evidence.facts), cause_of(evidence, now)
    return {
        "version": 1,
        "namespace": account.namespace,
        "name": account.name,
        "uid": account.uid,
        **cause.to_object(),
        "reason": cause.reason,
        "also": [each.to_object() for each in lesser_troubles(evidence, now)],
        "engineChoice": account.engine_choice.message if account.engine_choice else None,
        "decision": decision_line(account) or None,
        "cap": cap_line(account) or None,
        "notShown": list(account.not_shown),
    }
