"""What the status of a DataTransferNode says of its tuning."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tuning_builders import GOOD_KERNEL, NOW, a_measured_path

from fairlead.api.datatransfernode.status import MOST_ADVICE, KernelStatus
from fairlead.api.reasons import DtnConditionType
from fairlead.api.shared.fields import Condition
from fairlead.core.conditions import Conditions
from fairlead.core.tuning.conclusion import Tuning, advice_of, page_of, set_tuned, tuning_of
from fairlead.core.tuning.facts import HostFacts, TunedInterface
from fairlead.core.tuning.rules import RULES, TuningRule

CHECKOUT = Path(__file__).parents[4]
SLOW = HostFacts(
    KernelStatus(cpu_governor="powersave", clock_source="hpet", tcp_send_buffer_maximum_bytes=4194304),
    interfaces=(TunedInterface("data0", mtu=1500, declared_mtu=9000, qdisc="fq_codel"),),
    paths=(a_measured_path(),),
)


def _tuned(tuning: Tuning | None) -> Condition:
    conditions = Conditions((), generation=3, now=NOW, kinds=DtnConditionType)
    set_tuned(conditions, tuning)
    condition = conditions.get(DtnConditionType.TUNED)
    assert condition is not None
    return condition


def test_the_worst_findings_come_first_and_stand_in_the_condition() -> None:
    tuning = tuning_of(SLOW)
    assert [finding.rule for finding in tuning.findings] == sorted(
        (finding.rule for finding in tuning.findings), key=list(TuningRule).index
    )
    condition = _tuned(tuning)
    assert (condition.status, condition.reason, condition.observed_generation) == ("False", "SettingsToChange", 3)
    assert condition.message.startswith(
        "SocketBuffers: net.ipv4.tcp_wmem 4 MiB, should be 256 MiB each; MTU of data0: 1500, should be 9000;"
    )
    assert condition.message.endswith("2 more; status.advice has the commands")


def test_a_host_with_nothing_to_change_says_what_is_not_known() -> None:
    condition = _tuned(tuning_of(HostFacts(GOOD_KERNEL)))
    assert (condition.status, condition.reason) == ("True", "SettingsAsAdvised")
    assert "not known: SocketBuffers, MTU, Bonding, Interrupts, QueueingDiscipline, Pacing" in condition.message


def test_a_host_of_which_nothing_is_known_is_neither_tuned_nor_untuned() -> None:
    for tuning in (None, tuning_of(HostFacts())):
        condition = _tuned(tuning)
        assert (condition.status, condition.reason) == ("Unknown", "SettingsUnknown")
    assert advice_of(None) == ()


def test_advice_has_what_is_set_what_should_be_why_and_how() -> None:
    advice = advice_of(tuning_of(SLOW))
    mtu = next(each for each in advice if each.rule == "MTU")
    assert (mtu.interface, mtu.found, mtu.recommended, mtu.page) == ("data0", "1500", "9000", "docs/how-to/tune/mtu.md")
    assert all(each.why and each.command for each in advice)


def test_advice_is_bounded() -> None:
    finding = replace(tuning_of(SLOW).findings[0], found="x" * 9999)
    advice = advice_of(Tuning((finding,) * 1000))
    assert len(advice) == MOST_ADVICE
    assert len(advice[0].found) == 512
    assert len(_tuned(Tuning((finding,) * 1000)).message) <= 1024


def test_the_same_facts_always_give_the_same_advice() -> None:
    assert advice_of(tuning_of(SLOW)) == advice_of(tuning_of(SLOW))


def test_there_is_a_rule_for_every_name() -> None:
    assert list(RULES) == list(TuningRule)


@pytest.mark.parametrize("rule", TuningRule)
def test_every_rule_has_a_page_which_the_overview_names(rule: TuningRule) -> None:
    page = CHECKOUT / page_of(rule)
    text = page.read_text()
    assert f"`{rule}`" in text
    for heading in ("## Set it", "## Keep it", "## Check it"):
        assert heading in text
    assert page.name in (page.parent / "README.md").read_text()
