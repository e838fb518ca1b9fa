"""The `FairnessPolicy` resource as a whole: spec, status and the columns of `kubectl get`."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from fairlead.api.fairnesspolicy.spec import FairnessPolicySpec
from fairlead.api.fairnesspolicy.status import FairnessPolicyStatus
from fairlead.api.shared.resource import ObjectMetadata, Resource
from fairlead.api.shared.schema import Column

__all__ = ["POLICY_COLUMNS", "FairnessPolicy", "FairnessPolicySpec", "FairnessPolicyStatus"]

POLICY_COLUMNS: Final = (
    Column("Accepted", "string", '.status.conditions[?(@.type=="Accepted")].status', "Whether the policy is in force as written"),
    Column("Guarantees", "string", '.status.conditions[?(@.type=="GuaranteesMet")].status', "Whether every guarantee is kept"),
    Column("Jobs", "integer", ".status.jobs", "Jobs that share the links"),
    Column("Waiting", "integer", ".status.waiting", "Jobs that wait for room on a link"),
    Column("Jain", "string", ".status.jainIndex", "Jain's index of what was measured per weight, all jobs"),
    Column("Reason", "string", '.status.conditions[?(@.type=="Accepted")].reason', "Why it is accepted or not", wide=True),
    Column("Age", "date", ".metadata.creationTimestamp", "Time since creation"),
)


class FairnessPolicy(Resource):
    """Who shares which links."""

    metadata: ObjectMetadata
    spec: FairnessPolicySpec
    status: FairnessPolicyStatus = Field(default_factory=FairnessPolicyStatus)
