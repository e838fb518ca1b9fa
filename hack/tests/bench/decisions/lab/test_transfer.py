"""What each policy's programs are told."""

import pytest

from fairlead.api.transferjob.spec import Streams
from fairlead.kube.objects import build
from fairlead.kube.objects.template import MoverTemplate
from fairlead_dev.bench.decisions.lab import transfer
from fairlead_dev.bench.decisions.lab.transfer import advisor_choice, sender_choice
from fairlead_dev.bench.decisions.matrix import COUNTS, FIXED_CHOICES, Policy
from fairlead_dev.wan.two_hosts import AWAIT_TRANSPORT_S


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        (Policy.CUBIC, "--streams 1 --congestion-control cubic"),
        (Policy.BBR, "--streams 1 --congestion-control bbr"),
        (Policy.CUBIC_4, "--streams 4 --congestion-control cubic"),
        (Policy.CUBIC_16, "--streams 16 --congestion-control cubic"),
        (Policy.PAPER, "--streams 1 --await-transport 60"),
        (Policy.PAPER_OWN_PATH, "--streams 1 --await-transport 60"),
        (Policy.FALCON, "--streams 1 --streams-max 32 --congestion-control cubic"),
        (Policy.ONE_STREAM, "--streams 1 --await-transport 60"),
        (
            Policy.OURS,
            "--streams 4 --streams-min 1 --streams-max 32 --congestion-control cubic --congestion-controls cubic,bbr,reno"
            " --await-transport 60",
        ),
    ],
)
def test_the_sender_starts_as_the_policy_has_it(policy: Policy, told: str) -> None:
    assert " ".join(str(word) for word in sender_choice(policy)) == told


def test_the_advisor_has_the_count_to_choose_in_the_default_job_alone() -> None:
    told = {policy: " ".join(str(word) for word in advisor_choice(policy)) for policy in (Policy.OURS, Policy.ONE_STREAM)}
    assert told[Policy.OURS] == "--seconds 10 --streams-min 1 --streams-max 32 --congestion-control Auto"
    assert told[Policy.ONE_STREAM] == "--seconds 10 --streams-min 1 --streams-max 1 --congestion-control Auto"


def test_the_default_job_is_the_operators() -> None:
    template = MoverTemplate.__dataclass_fields__
    assert (Streams().min, Streams().max) == (transfer.LEAST_STREAMS, transfer.MOST_STREAMS)
    assert transfer.CONTROLS == build._ADVISORS_CONTROLS
    assert template["probe_seconds"].default == transfer.PROBE_S
    assert template["await_transport_seconds"].default == AWAIT_TRANSPORT_S
    assert set(COUNTS) < FIXED_CHOICES.keys()
