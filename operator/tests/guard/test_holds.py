"""What holds a sender, and that one that cannot be held leaves the others as they are."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from guard_pods import UIDS, make_sender
from guard_programs import FakeKernel

from fairlead.guard.cgroups import NetworkClasses, PodGroups
from fairlead.guard.holds import RETRY_SECONDS, HeldBy, Holds, RulesRefusedError
from fairlead.guard.programs import CgroupPrograms
from fairlead.guard.ruleset import Chains, Endpoint, HeldSender, chains_of, difference, no_rules, ruleset

pytestmark = pytest.mark.asyncio
CAP = 80_000_000


class Nft:
    """Takes scripts, but for those with a text that it refuses."""

    def __init__(self, *refused: str) -> None:
        self.refused = list(refused)
        self.installed: list[str] = []
        self.asked = 0

    async def install(self, script: str) -> None:
        await self.check(script)
        self.installed.append(script)

    async def check(self, script: str) -> None:
        self.asked += 1
        if any(text in script for text in self.refused):
            raise RulesRefusedError("nft refused the rules: no")


def chains(*ports: int) -> Chains:
    return chains_of(HeldSender(Endpoint("198.19.0.2", port), CAP) for port in ports)


def rules(*ports: int) -> str:
    return ruleset(chains(*ports))


def make_holds(
    nft: Nft,
    programs: CgroupPrograms | None = None,
    classes: NetworkClasses | None = None,
    clock: Callable[[], float] | None = None,
) -> Holds:
    """Without a `clock`, any two looks at it are far apart."""
    return Holds(programs=programs, classes=classes, install=nft.install, check=nft.check, clock=clock or count(0, 100).__next__)


def with_group(root: Path, uid: str) -> Path:
    group = root / "kubepods" / f"pod{uid}"
    group.mkdir(parents=True)
    return group


async def test_a_program_at_its_control_group_holds_a_sender_without_any_rule(tmp_path: Path) -> None:
    kernel, nft = FakeKernel(), Nft()
    group = with_group(tmp_path, UIDS[0])
    holds = make_holds(nft, CgroupPrograms(PodGroups(tmp_path), kernel=kernel))
    await holds.apply([(make_sender(UIDS[0]), CAP)])
    assert holds.now[UIDS[0]].by is HeldBy.CONTROL_GROUP
    assert kernel.groups == {group}
    assert nft.installed == [no_rules()]


async def test_a_pod_without_a_control_group_yet_is_waited_for(tmp_path: Path) -> None:
    holds = make_holds(Nft(), CgroupPrograms(PodGroups(tmp_path, clock=iter(range(0, 1000, 10)).__next__), kernel=FakeKernel()))
    await holds.apply([(make_sender(UIDS[0], started=False), CAP)])
    assert holds.is_waiting
    with_group(tmp_path, UIDS[0])
    await holds.apply([(make_sender(UIDS[0], started=False), CAP)])
    assert not holds.is_waiting
    assert holds.now[UIDS[0]].by is HeldBy.CONTROL_GROUP


async def test_a_sender_that_runs_where_no_group_is_found_is_held_at_its_receiver(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    nft = Nft()
    holds = make_holds(nft, CgroupPrograms(PodGroups(tmp_path), kernel=FakeKernel()))
    await holds.apply([(make_sender(UIDS[0]), CAP)])
    assert holds.now[UIDS[0]].by is HeldBy.RECEIVER
    assert nft.installed == [rules(24000)]
    assert "physics/run42-sender is held by Receiver only: its control group is not where kubelets make them" in caplog.text


async def test_a_program_that_the_kernel_refuses_for_one_pod_leaves_the_others_held(tmp_path: Path) -> None:
    groups = [with_group(tmp_path, uid) for uid in UIDS]
    kernel, nft = FakeKernel(refused={groups[0]}), Nft()
    holds = make_holds(nft, CgroupPrograms(PodGroups(tmp_path), kernel=kernel))
    await holds.apply([(make_sender(uid, 24000 + 4 * number), CAP) for number, uid in enumerate(UIDS)])
    assert [holds.now[uid].by for uid in UIDS] == [HeldBy.RECEIVER, HeldBy.CONTROL_GROUP]
    assert nft.installed == [rules(24000)]


async def test_a_network_class_holds_a_sender_where_there_are_no_programs(tmp_path: Path) -> None:
    group = with_group(tmp_path, UIDS[0])
    (group / "net_cls.classid").write_text("0")
    nft = Nft()
    holds = make_holds(nft, classes=NetworkClasses(tmp_path))
    await holds.apply([(make_sender(UIDS[0]), CAP)])
    assert holds.now[UIDS[0]].by is HeldBy.NETWORK_CLASS
    assert f"meta cgroup {(group / 'net_cls.classid').read_text()} " in nft.installed[-1]


@pytest.mark.parametrize("address", ["fe80::1%5", "127.0.0.1", "169.254.169.254", "no address; accept"])
async def test_a_receiver_that_is_no_rule_is_skipped_and_named(address: str, caplog: pytest.LogCaptureFixture) -> None:
    nft = Nft()
    holds = make_holds(nft)
    await holds.apply([(make_sender(UIDS[0], address=address), CAP), (make_sender(UIDS[1], 24004), CAP)])
    assert [holds.now[uid].by for uid in UIDS] == [HeldBy.NOTHING, HeldBy.RECEIVER]
    assert nft.installed == [rules(24004)]
    assert "physics/run42-sender is not held to its cap" in caplog.text


async def test_a_rule_that_nft_refuses_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    nft = Nft("dport 24000")
    holds = make_holds(nft)
    await holds.apply([(make_sender(UIDS[0]), CAP), (make_sender(UIDS[1], 24004), CAP)])
    assert [holds.now[uid].by for uid in UIDS] == [HeldBy.NOTHING, HeldBy.RECEIVER]
    assert nft.installed == [rules(24004)]
    assert holds.refusals == 0
    assert "physics/run42-sender is not held to its cap" in caplog.text


async def test_the_last_good_rules_stay_where_nft_takes_none() -> None:
    nft = Nft()
    holds = make_holds(nft)
    await holds.apply([(make_sender(UIDS[0]), CAP)])
    nft.refused = [""]
    both = [(make_sender(UIDS[0]), CAP), (make_sender(UIDS[1], 24004), CAP)]
    await holds.apply(both)
    assert [holds.now[uid].by for uid in UIDS] == [HeldBy.RECEIVER, HeldBy.NOTHING]
    assert (nft.installed, holds.refusals) == ([rules(24000)], 1)
    nft.refused = []
    await holds.apply(both)
    assert nft.installed == [rules(24000), difference(chains(24000), chains(24000, 24004))]


@pytest.mark.parametrize("refused", ["dport 24000", ""], ids=["one rule", "all rules"])
async def test_what_was_refused_is_tried_again_after_some_seconds_or_when_it_changes(refused: str) -> None:
    nft, now = Nft(refused), [0.0]
    holds = make_holds(nft, clock=lambda: now[0])
    both = [(make_sender(UIDS[0]), CAP), (make_sender(UIDS[1], 24004), CAP)]
    await holds.apply(both)
    held, asked = [hold.by for hold in holds.now.values()], nft.asked
    await holds.apply(both)
    assert ([hold.by for hold in holds.now.values()], nft.asked) == (held, asked)
    await holds.apply([(make_sender(UIDS[0]), 2 * CAP), both[1]])
    assert nft.asked > asked, "changed"
    await holds.apply(both)
    asked = nft.asked
    now[0] += RETRY_SECONDS
    await holds.apply(both)
    assert nft.asked > asked, "later"
    nft.refused = []
    now[0] += RETRY_SECONDS
    await holds.apply(both)
    assert "dport 24000 " in nft.installed[-1]
    assert {hold.by for hold in holds.now.values()} == {HeldBy.RECEIVER}


async def test_rules_that_were_refused_are_tried_at_once_where_others_were_installed_since() -> None:
    nft = Nft("dport 24000")
    holds = make_holds(nft, clock=lambda: 0.0)
    both = [(make_sender(UIDS[0]), CAP), (make_sender(UIDS[1], 24004), CAP)]
    await holds.apply(both)
    await holds.apply([])
    await holds.apply(both)
    assert nft.installed == [rules(24004), no_rules(), rules(24004)]


async def test_a_sender_without_a_cap_is_let_go(tmp_path: Path) -> None:
    with_group(tmp_path, UIDS[0])
    kernel = FakeKernel()
    holds = make_holds(Nft(), CgroupPrograms(PodGroups(tmp_path), kernel=kernel))
    await holds.apply([(make_sender(UIDS[0]), CAP)])
    await holds.apply([(make_sender(UIDS[0]), None)])
    assert holds.now == {}
    assert kernel.caps_in_force() == []


async def test_what_changes_nothing_is_not_given_to_the_kernel_again(tmp_path: Path) -> None:
    nft = Nft()
    holds = make_holds(nft)
    for _ in range(3):
        await holds.apply([(make_sender(UIDS[0]), CAP)])
    assert nft.installed == [rules(24000)]


async def test_a_table_that_somebody_has_taken_away_is_made_anew_with_the_next_change() -> None:
    nft = Nft()
    holds = make_holds(nft)
    await holds.apply([(make_sender(UIDS[0]), CAP)])
    nft.refused = ["flush chain"]
    await holds.apply([(make_sender(UIDS[0]), CAP), (make_sender(UIDS[1], 24004), CAP)])
    assert nft.installed == [rules(24000), rules(24000, 24004)]
    assert holds.refusals == 0


def with_class(root: Path, uid: str, number: int = 0) -> Path:
    container = with_group(root, uid) / "container"
    container.mkdir()
    for group in (container.parent, container):
        (group / "net_cls.classid").write_text(str(number))
    return container


def class_of(group: Path) -> int:
    return int((group / "net_cls.classid").read_text())


async def test_a_sender_that_has_no_cap_any_more_does_not_wear_the_class_of_the_next_one(tmp_path: Path) -> None:
    one, other = (with_class(tmp_path, uid) for uid in UIDS)
    nft = Nft()
    holds = make_holds(nft, classes=NetworkClasses(tmp_path))
    await holds.apply([(make_sender(UIDS[0]), CAP)])
    number = class_of(one)
    await holds.apply([(make_sender(UIDS[0]), None), (make_sender(UIDS[1], 24004), CAP)])
    assert [class_of(each) for each in (one.parent, one, other)] == [0, 0, number]


async def test_a_class_of_an_earlier_guard_is_taken_from_a_sender_without_a_cap_and_another_programs_stays(tmp_path: Path) -> None:
    ours, others = with_class(tmp_path, UIDS[0], 0xFA1E0001), with_class(tmp_path, UIDS[1], 0x100001)
    holds = make_holds(Nft(), classes=NetworkClasses(tmp_path))
    for _ in range(2):
        await holds.apply([(make_sender(uid), None) for uid in UIDS])
    assert [class_of(each) for each in (ours.parent, ours, others)] == [0, 0, 0x100001]


async def test_a_class_that_cannot_be_taken_away_is_given_to_nobody_else(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    one, other = (with_class(tmp_path, uid) for uid in UIDS)
    holds = make_holds(Nft(), classes=NetworkClasses(tmp_path))
    await holds.apply([(make_sender(UIDS[0]), CAP)])
    number = class_of(one)
    (one / "net_cls.classid").unlink()
    await holds.apply([(make_sender(UIDS[0]), None), (make_sender(UIDS[1], 24004), CAP)])
    assert class_of(other) not in (0, number)
    assert "physics/run42-sender has no cap any more and keeps its network class" in caplog.text
