"""What the bench runs: jobs under the operator's decisions, the same jobs without, and changes of caps one by one."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fairlead.core.fairness.model import JobStage
from fairlead.core.fairness.summary import measured_jain
from fairlead_dev.bench.fairness.bed.disk import SlowDisk, slow_disk
from fairlead_dev.bench.fairness.bed.movers import RunningJob
from fairlead_dev.bench.fairness.bed.network import TABLE, Bed, bed
from fairlead_dev.bench.fairness.control import Control
from fairlead_dev.bench.fairness.figures import Write, parse_counters
from fairlead_dev.bench.fairness.scenario import BY_NAME, DESTINATIONS, LINKS, WEIGHTS, Event, JobSpec, rules
from fairlead_dev.bench.lab.mover import SAMPLER, MoverProgram, start_script
from fairlead_dev.bench.lab.rates import InterfaceSample, parse
from fairlead_dev.errors import LabError
from fairlead_dev.netlab.processes import running, wait_until

COUNTERS = Path(__file__).parent / "bed" / "counters.py"
LOOK_S = 3.0
"""How often the operator asks movers how far they are."""
PROJECTION_S = 0.3
"""From an annotation to the file in the pod, as measured with the kubelet of the local cluster. It is waited for, so it counts."""
DISK_FILE_BYTES = 512 << 20
START_LIMIT_S = 20.0
LINK_SAMPLE_S, JOB_SAMPLE_S = 0.01, 0.1


@dataclass(slots=True)
class Record:
    """What a phase left. Times are of the monotonic clock; `began_s` is the start of its timeline."""

    began_s: float
    ended_s: float = 0.0
    jobs: Mapping[str, Sequence[InterfaceSample]] = field(default_factory=dict)
    links: Mapping[str, Sequence[InterfaceSample]] = field(default_factory=dict)
    writes: list[Write] = field(default_factory=list)
    operator_jain: list[tuple[float, float]] = field(default_factory=list)
    """Time and Jain's index of all jobs as the operator itself would report it."""


class BenchPhase:
    """The test bed with its counters, and the jobs that run on it."""

    def __init__(self, mover: MoverProgram, scratch: Path, test_bed: Bed, slow: SlowDisk) -> None:
        self._mover, self._scratch, self._bed, self._slow = mover, scratch, test_bed, slow
        self._started = 0
        self.jobs: dict[str, RunningJob] = {}

    def record_of_flowing_jobs(self) -> Record:
        """Waits for the data of every job; a record that begins then. Raises LabError."""
        wait_until(
            lambda: all(job.participant().stage is JobStage.FLOWING for job in self.jobs.values()), "data of every job", START_LIMIT_S
        )
        return Record(time.monotonic())

    def start(self, spec: JobSpec, cap_bps: int | None) -> None:
        """Starts a job."""
        self._started += 1
        job = RunningJob(spec, self._started, cap_bps)
        self.jobs[spec.name] = job
        job.start(self._bed, self._mover, self._scratch / f"{spec.name}-{self._started}", self._slow if spec.disk_bps is not None else None)

    def stop(self, name: str) -> None:
        """Stops a job."""
        self.jobs.pop(name).stop()

    def stop_all(self) -> None:
        """Stops every job."""
        for name in list(self.jobs):
            self.stop(name)

    def check(self) -> None:
        """Raises LabError if a job has ended by itself."""
        for job in self.jobs.values():
            job.check()

    def read(self, record: Record) -> None:
        """Takes in what the counters have."""
        record.ended_s = time.monotonic()
        record.jobs = {
            name: samples for node in DESTINATIONS for name, samples in parse_counters((self._scratch / f"jobs-{node}").read_text()).items()
        }
        record.links = {link.name: parse((self._scratch / f"link-{link.name}").read_text()) for link in LINKS}


@contextlib.contextmanager
def phase(mover: MoverProgram, scratch: Path) -> Iterator[BenchPhase]:
    """Builds everything for one phase and removes it. Raises LabError."""
    scratch.mkdir()
    rate_bps = next(job.disk_bps for job in BY_NAME.values() if job.disk_bps is not None)
    with contextlib.ExitStack() as stack:
        disk = stack.enter_context(slow_disk(scratch, DISK_FILE_BYTES, rate_bps / 8))
        test_bed = stack.enter_context(bed())
        outputs = []
        for link in LINKS:
            namespace, device = test_bed.watch_point(link.name)
            outputs.append(scratch / f"link-{link.name}")
            sampler = start_script(SAMPLER, device, str(LINK_SAMPLE_S), namespace=namespace, output=outputs[-1])
            stack.enter_context(running(sampler))
        for node in DESTINATIONS:
            namespace = test_bed.nodes[node].namespace
            outputs.append(scratch / f"jobs-{node}")
            counter = start_script(COUNTERS, TABLE, str(JOB_SAMPLE_S), namespace=namespace, output=outputs[-1])
            stack.enter_context(running(counter))
        made = BenchPhase(mover, scratch, test_bed, disk)
        stack.callback(made.stop_all)
        wait_until(lambda: all(output.stat().st_size for output in outputs), "the first samples", START_LIMIT_S)
        yield made


def managed(mover: MoverProgram, scratch: Path, timeline: Sequence[Event], end_s: float) -> Record:
    """Runs the timeline with the operator's decisions."""
    with phase(mover, scratch) as made:
        record = Record(time.monotonic())
        _Managed(made, record, timeline, record.began_s + end_s).run()
        made.read(record)
    return record


class _Managed:
    """The timeline, the readings of movers, the rounds and the projection of caps, each when it is due."""

    def __init__(self, made: BenchPhase, record: Record, timeline: Sequence[Event], end_s: float) -> None:
        self._phase, self._record, self._end_s = made, record, end_s
        self._events = [(record.began_s + event.at_s, event) for event in timeline]
        self._control = Control(rules(WEIGHTS), record.began_s)
        self._look_due_s = record.began_s
        self._waiting: dict[str, JobSpec] = {}
        self._projections: list[tuple[float, str, int]] = []

    def run(self) -> None:
        while (now_s := time.monotonic()) < self._end_s:
            if self._projections and self._projections[0][0] <= now_s:
                self._project()
            elif self._events and self._events[0][0] <= now_s:
                self._happen(self._events.pop(0)[1], now_s)
            elif self._control.due_s() <= now_s:
                self._round(now_s)
            elif self._look_due_s <= now_s:
                self._look()
                self._look_due_s = max(self._look_due_s + LOOK_S, now_s)
            else:
                dues = [self._control.due_s(), self._look_due_s, self._end_s]
                dues += [self._events[0][0]] if self._events else []
                dues += [self._projections[0][0]] if self._projections else []
                time.sleep(max(0.0, min(dues) - now_s))

    def _happen(self, event: Event, now_s: float) -> None:
        print(f"    {event.at_s:5.0f} s: {event.name}", flush=True)
        for name in event.leave:
            self._phase.stop(name)
            self._control.drop(name, time.monotonic())
            self._record.writes.append(Write(now_s, name, self._record_before(name), 0.0))
        for name in event.arrive:
            self._waiting[name] = BY_NAME[name]
            self._control.note(BY_NAME[name].participant(JobStage.ASKING), now_s)
        if event.weights is not None:
            self._control.change_rules(rules(event.weights))

    def _look(self) -> None:
        self._phase.check()
        for job in self._phase.jobs.values():
            noted = job.participant()
            self._control.note(noted, time.monotonic())

    def _round(self, now_s: float) -> None:
        caps, outcome = self._control.round(now_s)
        jain = measured_jain(outcome.sharing, self._control.rules, outcome)
        if jain is not None:
            self._record.operator_jain.append((now_s, jain))
        for name, cap_bps in caps.items():
            if name in self._waiting:
                self._record.writes.append(Write(time.monotonic(), name, 0.0, cap_bps))
                self._phase.start(self._waiting.pop(name), cap_bps)
                self._control.note(self._phase.jobs[name].participant(), time.monotonic())
            elif name in self._phase.jobs:
                before_bps = self._record_before(name)
                self._record.writes.append(Write(now_s, name, before_bps, cap_bps))
                self._projections.append((now_s + PROJECTION_S, name, cap_bps))

    def _record_before(self, name: str) -> float:
        return next(write.after_bps for write in reversed(self._record.writes) if write.job == name)

    def _project(self) -> None:
        _, name, cap_bps = self._projections.pop(0)
        if name in self._phase.jobs:
            self._phase.jobs[name].show_cap(cap_bps)


def unmanaged(mover: MoverProgram, scratch: Path, names: Sequence[str], seconds: float) -> Record:
    """Runs these jobs without caps."""
    with phase(mover, scratch) as made:
        for name in names:
            made.start(BY_NAME[name], None)
        record = made.record_of_flowing_jobs()
        time.sleep(seconds)
        made.check()
        made.read(record)
    return record


LATENCY_JOBS = ("bronze_3", "gold_3", "silver_4", "gold_4", "gold_5")
LOW_BPS, HIGH_BPS = 10_000_000, 30_000_000
CHANGE_S = 3.5
"""Time that a new cap has until it changes again."""


def changes(mover: MoverProgram, scratch: Path, seconds: float) -> Record:
    """Changes the caps of several jobs at random times, up and down."""
    chance = random.Random(1)
    with phase(mover, scratch) as made:
        for name in LATENCY_JOBS:
            made.start(BY_NAME[name], LOW_BPS)
        record = made.record_of_flowing_jobs()
        caps = dict.fromkeys(LATENCY_JOBS, LOW_BPS)
        # Random, so that the changes are in no fixed phase with the mover's reading of the file.
        due = {name: record.began_s + CHANGE_S + chance.random() for name in LATENCY_JOBS}
        projections: list[tuple[float, str]] = []
        end_s = record.began_s + seconds
        while (now_s := time.monotonic()) < end_s:
            name = min(due, key=due.__getitem__)
            if projections and projections[0][0] <= now_s:
                _, changed = projections.pop(0)
                made.jobs[changed].show_cap(caps[changed])
            elif due[name] <= now_s and now_s + CHANGE_S < end_s:
                before_bps, caps[name] = caps[name], LOW_BPS + HIGH_BPS - caps[name]
                record.writes.append(Write(now_s, name, before_bps, caps[name]))
                projections.append((now_s + PROJECTION_S, name))
                due[name] = now_s + CHANGE_S + chance.random()
            else:
                soonest_s = min([due[name] if due[name] > now_s else end_s, end_s, *(at_s for at_s, _ in projections)])
                time.sleep(max(0.0, soonest_s - now_s))
        made.check()
        made.read(record)
    if not record.writes:
        raise LabError("no cap was changed: the phase is too short")
    return record
