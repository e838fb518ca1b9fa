"""TransferJobs as users write them."""

from __future__ import annotations

import copy
from typing import Any

from fairlead_dev.clients.kubectl import Object

SOURCE_NODE, DESTINATION_NODE = "dtn-a", "dtn-b"
SOURCE_CLAIM, DESTINATION_CLAIM = "raw", "scratch"
FOLDER = "run42"


def transfer_job(namespace: str, name: str = "job", **spec: Any) -> Object:
    """A job from the source disk's folder to the destination disk's folder of the same name, with `spec` merged over it."""
    ends = {
        "source": _side(SOURCE_NODE, SOURCE_CLAIM),
        "destination": _side(DESTINATION_NODE, DESTINATION_CLAIM),
    }
    return {
        "apiVersion": "fairlead.io/v1alpha1",
        "kind": "TransferJob",
        "metadata": {"name": name, "namespace": namespace},
        "spec": merged(ends, spec),
    }


def merged(base: Object, changes: Object) -> Object:
    """`base` with `changes` over it: mappings are merged, everything else is replaced, None removes."""
    result = copy.deepcopy(base)
    for key, value in changes.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = merged(result[key], value)
        else:
            result[key] = copy.deepcopy(value)
    return result


def _side(node: str, claim: str) -> Object:
    return {"node": node, "volume": {"persistentVolumeClaim": {"claimName": claim}}, "path": FOLDER}
