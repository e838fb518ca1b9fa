"""What the page on protocols says was checked is what the committed run wrote."""

from __future__ import annotations

import json
import re
from typing import Any

from fairlead_dev.bench.tcp_variants.plan import BUILT_IN, REQUIRED, GuestPlan
from fairlead_dev.checkout import CHECKOUT

PAGE = CHECKOUT / "docs" / "how-to" / "choose-a-protocol.md"
RESULT = CHECKOUT / "docs" / "explanation" / "data" / "tcp-variants.json"


def rows() -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in json.loads(RESULT.read_text())}


def controls() -> list[str]:
    return sorted(name.removesuffix("_carries") for name in rows() if name.endswith("_carries"))


def test_every_check_of_the_run_passed_and_none_is_missing() -> None:
    found = {name: row["value"] for name, row in rows().items() if name != "about"}
    assert {*REQUIRED, *BUILT_IN} <= set(controls())
    assert found == dict.fromkeys(GuestPlan(controls(), ()).checks, 1)


def test_the_page_names_the_controls_and_the_kernel_of_the_run() -> None:
    text = " ".join(PAGE.read_text().split())
    listed = text.partition("has checked ")[2].partition(":")[0]
    assert re.findall(r"`(\w+)`", listed) == controls()
    release, version = re.findall(r"^(\S+),.* Debian (\S+) ", rows()["about"]["kernel"])[0]
    assert f"kernel {release} ({version})" in text
