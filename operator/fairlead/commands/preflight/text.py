"""The findings as text for people."""

from __future__ import annotations

from fairlead.commands.explain.text import as_table
from fairlead.commands.preflight.findings import PreflightFindings


def render(findings: PreflightFindings) -> str:
    """A headline, a line for each check, and what to do, without a last line break."""
    failed = sum(each.result == "Failed" for each in findings.checks)
    warned = sum(each.result == "Warning" for each in findings.checks)
    count = len(findings.checks)
    outcome = f"{failed} of {count} checks failed" if failed else f"{count - warned} of {count} checks passed"
    outcome += f", {warned} with a warning" if warned else ""
    rows = [("END", "CHECK", "RESULT", "REASON", "WHAT WAS FOUND")]
    rows += [(each.end, each.check, each.result, each.reason or "", each.message) for each in findings.checks]
    blocks = [f"TransferJob {findings.namespace}/{findings.name}: {outcome}; nothing was moved", "\n".join(as_table(rows))]
    remedies = [(each.reason or each.check, f"{each.remedy or ''} {each.page or ''}".strip()) for each in findings.checks if each.remedy]
    if remedies:
        lines = as_table(dict.fromkeys(remedies))
        blocks.append("What to do\n" + "\n".join(f"  {line}" for line in lines))
    return "\n\n".join(blocks)
