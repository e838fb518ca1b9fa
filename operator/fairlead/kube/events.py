"""Events on jobs. They are best effort: the status has the same content."""

from __future__ import annotations

import logging
from datetime import datetime

from fairlead.api import names
from fairlead.api.transferjob import TransferJob
from fairlead.core.plan import EmitEvent
from fairlead.kube.client import EVENTS, KubeClient, KubeObject
from fairlead.kube.errors import KubeError

LONGEST_EVENT_MESSAGE = 1024
_LONGEST_EVENT_NAME_STEM = 230

logger = logging.getLogger(__name__)


def build_event(job: TransferJob, event: EmitEvent, now: datetime, instance: str) -> KubeObject:
    """The object, of what happened at `now` as `instance` of the operator tells it."""
    moment = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    reference = {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "namespace": job.metadata.namespace,
        "name": job.metadata.name,
        "uid": job.metadata.uid,
        "resourceVersion": job.metadata.resource_version,
    }
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{job.metadata.name[:_LONGEST_EVENT_NAME_STEM].rstrip('.-')}.{int(now.timestamp() * 1e6):x}",
            "namespace": job.metadata.namespace,
        },
        "involvedObject": reference,
        "type": "Warning" if event.warning else "Normal",
        "reason": event.reason,
        "message": event.message[:LONGEST_EVENT_MESSAGE],
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "count": 1,
        "source": {"component": names.MANAGER},
        "reportingComponent": names.CONTROLLER,
        "reportingInstance": instance,
    }


async def write_event(client: KubeClient, event: KubeObject) -> None:
    """Creates one. An error is logged."""
    about = event["involvedObject"]
    try:
        await client.create(EVENTS, about["namespace"], event)
    except KubeError as error:
        logger.info("event %s on %s/%s was not written: %s", event["reason"], about["namespace"], about["name"], error)
