"""The loop's machine and the transfer that it is shown: no event loop, and no clock but the one of the table."""

from dataclasses import dataclass, field, replace

from fairlead_advisor.decide.background import Background
from fairlead_advisor.decide.loop.machine import handle
from fairlead_advisor.decide.loop.messages import (
    Action,
    Classified,
    Classify,
    Event,
    ReportVerdict,
    Sampled,
    SetTransport,
    TransportApplied,
)
from fairlead_advisor.decide.loop.observe import SEGMENT_BYTES
from fairlead_advisor.decide.loop.state import LoopState
from fairlead_advisor.decide.model import BufferLimits
from fairlead_advisor.decide.switching import SwitchVerdict
from fairlead_advisor.decide.transfer import MoverStats, StreamStats


@dataclass
class Loop:
    """A machine and the transfer that it is shown: a goodput from each moment on, sampled every second."""

    state: LoopState
    goodput_bps: float = 80e6
    streams: int = 4
    now_s: float = 0.0
    quiet_s: float | None = 0.0
    stage: str = "Transferring"
    buffers: BufferLimits | None = None
    answered_ratio: float = 1.0
    sent_bytes: float = 0.0
    cap_bps: float | None = None
    protocol: str = "TCP"
    busy_s: float = 0.0
    busy_ratio: float = 1.0
    rtt_ms: float = 61.0
    echo_ms: float | None = None
    """None: as long as those of the sockets."""
    paths: int = 1
    """With `streams` on each, and `goodput_bps` over all of them."""
    loss_ratio: float = 0.0
    lost: float = 0.0
    called: bool = False
    beside_own_bbr: bool = False
    control: str | None = None
    """That the sockets have; None: the one that the machine believes in force."""
    actions: list[Action] = field(default_factory=list)

    def hand_in(self, event: Event) -> tuple[Action, ...]:
        self.state, actions = handle(self.state, event, self.now_s)
        self.actions += actions
        return actions

    def sample(self) -> tuple[Action, ...]:
        self.now_s += 1.0
        self.sent_bytes += self.goodput_bps / 8
        self.busy_s += self.busy_ratio
        self.lost += self.loss_ratio * self.goodput_bps / 8 / SEGMENT_BYTES
        control = self.state.monitor.in_force if self.control is None else self.control
        count = self.streams * self.paths
        rtt_s = self.rtt_ms / 1000
        each = int(self.sent_bytes / count), int(self.lost / count), rtt_s, 0.06, control, self.busy_s, 0.0, 0.0
        streams = tuple(StreamStats(number, *each, number % self.paths) for number in range(count))
        stats = MoverStats(self.stage, frozenset({"cubic", "bbr"}), streams, self.cap_bps, self.quiet_s, self.buffers, self.protocol)
        return self.hand_in(Sampled(stats, (self.echo_ms or self.rtt_ms,) * 10, self.answered_ratio, self.called, self.beside_own_bbr))

    def asked(self, most: int) -> list[SetTransport]:
        """What the first of so many samples that asks for another transport asks for; nothing is answered."""
        for _ in range(most):
            if found := [action for action in self.sample() if isinstance(action, SetTransport)]:
                return found
        return []

    def sample_answered(self, heard: Background | None = None) -> tuple[Action, ...]:
        """A sample, and what follows from it with a mover that takes what it is asked for and a classifier that hears `heard`."""
        actions = made = self.sample()
        while actions and isinstance(actions[-1], SetTransport | Classify):
            asked = actions[-1]
            if isinstance(asked, SetTransport):
                self.streams = asked.wanted.streams or self.streams
                actions = self.hand_in(TransportApplied(replace(asked.wanted, streams=self.streams)))
            else:
                actions = self.hand_in(Classified(heard))
            made += actions
        return made

    def verdict(self, most: int) -> SwitchVerdict:
        """What comes of the trial that is on, within so many samples."""
        report = self.sample_until(ReportVerdict, most)
        assert isinstance(report, ReportVerdict)
        return report.verdict

    def sample_until(self, kind: type, most: int = 100) -> Action:
        """Samples until an action of that kind; any other request is answered as a mover and classifier without news would."""
        for _ in range(most):
            for action in self.sample():
                if isinstance(action, kind):
                    return action
                if isinstance(action, Classify):
                    self.hand_in(Classified(None))
        raise AssertionError(f"no {kind.__name__} within {most} samples")
