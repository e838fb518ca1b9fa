"""When senders and others come and go in a run, and what is kept of it; with stand-ins for all that has effects."""

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fairlead_dev.bench.shares import lab
from fairlead_dev.bench.shares.jobs import JobSample
from fairlead_dev.bench.shares.plan import NOBODY, OWN_APART_S, SCENES, SceneName, SharePath, ShareRun
from fairlead_dev.errors import LabError
from fairlead_dev.wan.two_hosts import WanPath

PATH = SharePath(40, 60, 1)
DIRECTION = {
    "packets_overrun": 0,
    "packets_dropped_memory": 0,
    "packets_dropped_device": 0,
    "write_lateness_us": {"p50": 10.0, "p99": 100.0, "max": 900.0},
}


class Clock:
    """Seconds that pass only when somebody waits."""

    now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s

    def wait(self, seconds: float, _stop: object) -> None:
        self.now_s += seconds


class Hosts:
    """A path that delivers 5 MB a second, and notes which commands are started when."""

    net = SimpleNamespace(sender="s", receiver="r", sender_address="198.18.0.1", receiver_address="198.18.0.2", control=Path("/c"))

    wan: WanPath

    def __init__(self, clock: Clock, folder: Path) -> None:
        self.clock, self.folder, self.started = clock, folder, []
        self.ticks = [(1000, 500), (3000, 1500)]

    def __enter__(self) -> "Hosts":
        return self

    def __exit__(self, *_error: object) -> None:
        pass

    def start(self, _namespace: str, *command: object) -> Any:
        kind = "server" if "-s" in command else "flow"
        self.started.append((kind, self.clock.now_s))
        return SimpleNamespace(poll=lambda: None, kill=lambda: self.started.append(("killed", self.clock.now_s)))

    def wait_for(self, satisfied: Any, *_more: object) -> None:
        assert satisfied()

    def listens(self, _port: int) -> bool:
        return True

    def over(self, wan: WanPath) -> "Hosts":
        self.wan = wan
        return self

    def delivered_bytes(self) -> int:
        return int(self.clock.now_s * 5_000_000)


class Job:
    """Sends 2.5 MB a second from its start on."""

    made: list["Job"]

    def __init__(self, hosts: Hosts, number: int, fixed: object, size_bytes: int) -> None:
        self.hosts, self.number, self.fixed, self.size_bytes, self.sent_s = hosts, number, fixed, size_bytes, 0.0
        Job.made.append(self)

    @property
    def sends(self) -> bool:
        return self.sent_s > 0

    def send(self) -> None:
        self.sent_s = self.hosts.clock.now_s

    def sample(self) -> JobSample:
        return JobSample(2_500_000, 1, ("cubic",), True)

    def decisions(self) -> list[dict[str, Any]]:
        return []

    def stop(self) -> None:
        pass


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hosts:
    clock = Clock()
    made = Hosts(clock, tmp_path)
    Job.made = []
    listed = "ESTAB 0 0 198.18.0.1:4000 198.18.0.2:5201 {} bytes_sent:9000\n"
    monkeypatch.setattr(lab, "TwoHosts", lambda wan, _folder: made.over(wan))
    monkeypatch.setattr(lab, "LabJob", Job)
    monkeypatch.setattr(lab, "_forget_lateness", lambda _hosts: None)
    monkeypatch.setattr(lab, "_pass", clock.wait)
    monkeypatch.setattr(lab, "time", clock)
    monkeypatch.setattr(lab, "processor_ticks", lambda: made.ticks.pop(0))
    monkeypatch.setattr(lab, "run_program", lambda *_command, **_more: listed.format("bbr" if "bbr" in str(made.scene) else "cubic"))
    monkeypatch.setattr(lab.emulator, "statistics", lambda *_asked: {"ab": DIRECTION, "ba": DIRECTION, "more": 1})
    monkeypatch.setattr(lab.tempfile, "mkdtemp", lambda **_where: str(tmp_path))
    return made


def measured(hosts: Hosts, scene: SceneName, fixed: tuple[int, str] | None = None) -> dict[str, Any]:
    hosts.scene = SCENES[scene]
    return lab.measure(ShareRun(PATH, scene, fixed, 0), threading.Event())


def test_the_clock_begins_with_the_sender(hosts: Hosts) -> None:
    result = measured(hosts, "clean", (4, "cubic"))
    (job,) = Job.made
    assert (job.sent_s, result["samples"][0]["time_s"], len(result["samples"])) == (1000.0, 1.0, SCENES["clean"].seconds)
    assert result["samples"][0]["own_mbps"] == pytest.approx(20.0) and result["samples"][0]["all_mbps"] == pytest.approx(40.0)
    assert job.size_bytes > 2 * 40e6 / 8 * SCENES["clean"].seconds
    assert (result["verdict"], result["controls"]) == ({"good": True, "faults": []}, {"cubic": ["cubic"]})


def test_a_flow_that_is_there_before_has_its_head_start(hosts: Hosts) -> None:
    result = measured(hosts, "bbr")
    assert hosts.started == [("server", 1000.0), ("flow", 1000.0)] and Job.made[0].sent_s == 1015.0
    assert result["controls"] == {"bbr": ["bbr"]}


@pytest.mark.parametrize(
    ("scene", "queue", "loss"),
    [("cubic", "drop-tail", 0.0), ("lossy", "drop-tail", 1e-3), ("apart", "fq-codel", 0.0)],
)
def test_a_scene_has_its_bottleneck(hosts: Hosts, scene: SceneName, queue: str, loss: float) -> None:
    measured(hosts, scene, (1, "cubic"))
    assert (hosts.wan.queue, hosts.wan.loss) == (queue, loss)


def test_a_flow_alone_has_no_sender_of_ours(hosts: Hosts) -> None:
    result = measured(hosts, "cubic", NOBODY)
    assert Job.made == [] and result["samples"][5]["jobs"] == [] and result["samples"][5]["own_mbps"] == 0
    assert result["verdict"]["good"] and result["controls"] == {"cubic": ["cubic"]}


def test_a_run_on_a_machine_that_was_busy_all_the_time_does_not_count(hosts: Hosts) -> None:
    hosts.ticks = [(1000, 500), (3000, 520)]
    result = measured(hosts, "clean", (4, "cubic"))
    assert result["busy_share"] == 0.99
    assert result["verdict"]["faults"] == ["the processors were busy for 99% of the time, at most 90%: run fewer side by side"]


def test_our_jobs_start_one_after_the_other_and_a_visitor_comes_and_goes(hosts: Hosts) -> None:
    result, scene = measured(hosts, "four"), SCENES["four"]
    assert [job.sent_s - 1000 for job in Job.made] == [number * OWN_APART_S for number in range(4)]
    assert [len(sample["jobs"]) for sample in result["samples"][15::20]][:5] == [1, 2, 3, 4, 4]
    came = next(at for kind, at in hosts.started if kind == "flow")
    left = next(at for kind, at in hosts.started if kind == "killed")
    assert (came - 1000, left - 1000) == (scene.arrives_s, scene.leaves_s)
    assert result["verdict"]["good"]


def test_a_fixed_choice_that_is_not_in_force_disturbs_the_run(hosts: Hosts) -> None:
    assert "bbr was asked for" in measured(hosts, "clean", (4, "bbr"))["verdict"]["faults"][0]


def test_a_job_that_sends_nothing_is_no_result(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Job, "sample", lambda _self: JobSample(0, 0, (), True))
    with pytest.raises(LabError, match="job 0 sent nothing"):
        measured(hosts, "clean")
