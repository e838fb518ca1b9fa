"""All senders and receivers of a run, and what each carried."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fairlead_dev.testbed.agents.channel import await_start, receive_plan, report
from fairlead_dev.testbed.agents.flow import FlowEnds, FlowSample, RunningFlow
from fairlead_dev.testbed.agents.loop import AgentLoop
from fairlead_dev.testbed.agents.tcp import TcpFlow
from fairlead_dev.testbed.agents.udp import UdpFlow
from fairlead_dev.testbed.lab.namespaces import ADDRESS_A, ADDRESS_B, Names
from fairlead_dev.testbed.scenario.expand import SingleFlow, single_flows
from fairlead_dev.testbed.scenario.model import Scenario

HEADER = "time_s,flow,goodput_bps,congestion_window_segments,rtt_ms,retransmits"


class _Recorder:
    """Writes a row for every flow and interval."""

    def __init__(self, flows: list[RunningFlow], loop: AgentLoop, interval_s: float, duration_s: float) -> None:
        self._flows = flows
        self._loop = loop
        self._interval_s = interval_s
        self._duration_s = duration_s
        self._last: dict[int, tuple[float, FlowSample]] = {}
        self._at_start: dict[int, FlowSample] = {}
        self._at_end: dict[int, FlowSample] = {}
        self.rows = [HEADER]

    def arrange(self, first_s: float) -> None:
        """Plan every row from `first_s` on."""
        ticks = int((self._duration_s - first_s) / self._interval_s + 1e-6)
        for tick in range(ticks + 1):
            self._loop.at(first_s + tick * self._interval_s, self._tick)
        self._loop.at(0.0, lambda: self._mark(self._at_start))
        self._loop.at(self._duration_s, lambda: self._mark(self._at_end))

    def _mark(self, marks: dict[int, FlowSample]) -> None:
        for flow in self._flows:
            marks[flow.single.number] = flow.sample()

    def _tick(self) -> None:
        for flow in self._flows:
            number, now_s, sample = flow.single.number, self._loop.now_s(), flow.sample()
            if number in self._last:
                before_s, before = self._last[number]
                goodput_bps = (sample.received_bytes - before.received_bytes) * 8 / max(1e-6, now_s - before_s)
                window = "" if sample.congestion_window_segments is None else str(sample.congestion_window_segments)
                rtt = "" if sample.rtt_ms is None else f"{sample.rtt_ms:.2f}"
                self.rows.append(f"{now_s:.3f},{flow.single.name},{goodput_bps:.0f},{window},{rtt},{sample.retransmits}")
            self._last[number] = now_s, sample

    def totals(self, number: int) -> dict[str, Any]:
        """What the flow carried during the recording."""
        start, end = self._at_start[number], self._at_end[number]
        received_bytes = end.received_bytes - start.received_bytes
        return {
            "received_bytes": received_bytes,
            "goodput_bps": round(received_bytes * 8 / self._duration_s),
            "retransmits": end.retransmits - start.retransmits,
        }


def _start(single: SingleFlow, scenario: Scenario, names: Names, loop: AgentLoop) -> RunningFlow:
    forward = single.flow.direction == "forward"
    ends = FlowEnds(names.a, names.b, ADDRESS_B) if forward else FlowEnds(names.b, names.a, ADDRESS_A)
    if single.flow.protocol == "udp":
        return UdpFlow(single, ends, loop)
    return TcpFlow(single, ends, scenario.path.rate_bps, loop)


def main() -> None:
    """Run the traffic as planned, write `flows.csv`, report the totals of the recording."""
    plan = receive_plan()
    scenario = Scenario.model_validate(plan["scenario"])
    loop = AgentLoop()
    flows = [_start(single, scenario, Names(**plan["namespaces"]), loop) for single in single_flows(scenario)]
    loop.start_at(await_start(plan["priority"]))
    recorder = _Recorder(flows, loop, plan["interval_s"], scenario.duration_s)
    recorder.arrange(-scenario.warm_up_s)
    for flow in flows:
        flow.arrange()
    # The last moments of the recording still have to happen.
    loop.run_until(scenario.duration_s + plan["interval_s"])
    for flow in flows:
        flow.close()
    Path(plan["flows"]).write_text("\n".join(recorder.rows) + "\n")
    report([{**flow.report.as_json(), **recorder.totals(flow.single.number)} for flow in flows])


if __name__ == "__main__":
    main()
