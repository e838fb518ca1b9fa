from pathlib import Path

import pytest
from pydantic import ValidationError

from fairlead_dev.errors import CommandUsageError
from fairlead_dev.testbed.runs.record import require_congestion_controls, scenario_digest
from fairlead_dev.testbed.scenario.expand import single_flows
from fairlead_dev.testbed.scenario.load import load_scenario, load_toml, named_scenarios
from fairlead_dev.testbed.scenario.model import Path as NetworkPath
from fairlead_dev.testbed.scenario.model import Scenario

from ..build import path, scenario, tcp, udp

ON_OFF = {"kind": "on_off", "on_s": 10, "off_s": 10}


def test_the_papers_path_has_the_papers_figures() -> None:
    overlay = NetworkPath(rate_bps=500_000_000, rtt_ms=128, buffer_bytes=6 * 1024**2)
    assert overlay.bdp_bytes == 8_000_000
    assert overlay.full_queue_ms == pytest.approx(100.663, abs=0.001)


def test_a_buffer_in_bdp_is_never_less_than_two_packets() -> None:
    assert NetworkPath(rate_bps=1_000_000, rtt_ms=1, buffer_bdp=0.5).queue_bytes == 3000
    assert NetworkPath(rate_bps=80_000_000, rtt_ms=100, buffer_bdp=0.5).queue_bytes == 500_000


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(path(buffer_bytes=10_000), "exactly one of buffer_bytes and buffer_bdp", id="two buffers"),
        pytest.param({"rate_bps": 10_000_000, "rtt_ms": 10}, "exactly one of buffer_bytes and buffer_bdp", id="no buffer"),
        pytest.param(path(loss_ratio=2), "loss_ratio", id="loss over one half"),
        pytest.param(path(rtt_ms=float("nan")), "rtt_ms", id="RTT is no number"),
        pytest.param(path(rate_bps=2_000_000_000, rtt_ms=1000), "lower rate_bps", id="more in flight than sockets hold"),
        pytest.param(path(jitter_ms=1), "jitter_ms", id="unknown field"),
        pytest.param(path(queue="red"), r"queue\n.*'drop-tail', 'drop-tail-packets', 'codel' or 'fq-codel'", id="unknown queue"),
        pytest.param(path(police_udp=5_000_000), "police_udp", id="policing without its fields"),
        pytest.param(path(police_udp={"rate_bps": 100}), r"police_udp\.rate_bps", id="policing to nothing"),
        pytest.param(path(police={"rate_bps": 10_000_000, "burst_bytes": 100}), r"police\.burst_bytes", id="burst of no packet"),
        pytest.param(path(thin_acks=0), "thin_acks", id="no acknowledgement at all"),
        pytest.param(path(emulator="netem"), r"emulator\n.*'fairlead-wan' or 'kernel'", id="unknown emulator"),
    ],
)
def test_a_bad_path_is_refused(content: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        NetworkPath.model_validate(content)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        pytest.param({"queue": "fq-codel"}, "queue", id="fair queue"),
        pytest.param({"queue": "drop-tail-packets"}, "queue", id="buffer of packets"),
        pytest.param({"police": {"rate_bps": 20_000_000}}, "police", id="policing"),
        pytest.param({"police_udp": {"rate_bps": 20_000_000}}, "police_udp", id="policing of UDP"),
        pytest.param({"thin_acks": 4}, "thin_acks", id="thinned acknowledgements"),
        pytest.param({"queue": "codel", "thin_acks": 4}, "queue, thin_acks", id="two of them"),
    ],
)
def test_what_the_kernels_queue_cannot_do_is_refused_by_its_field(changes: dict[str, object], named: str) -> None:
    assert NetworkPath.model_validate(path(**changes)).emulator == "fairlead-wan"
    with pytest.raises(ValidationError, match=f'{named}: emulator = "kernel" has a rate, .* alone'):
        NetworkPath.model_validate(path(emulator="kernel", **changes))


@pytest.mark.parametrize(
    ("flow", "message"),
    [
        pytest.param({"name": "x"}, "needs congestion_control", id="tcp without congestion control"),
        pytest.param(tcp(rate_bps=1_000_000), "takes no rate_bps", id="tcp with a rate"),
        pytest.param({"name": "x", "protocol": "udp"}, "needs rate_bps", id="udp without a rate"),
        pytest.param(udp(congestion_control="bbr"), "takes no congestion_control", id="udp with congestion control"),
        pytest.param(udp(pattern={"kind": "transfers", "size_bytes_median": 10_000}), "needs tcp", id="udp files"),
        pytest.param(tcp(start_s=-6), "outside the run", id="before the warm-up"),
        pytest.param(tcp(stop_s=31), "outside the run", id="after the end"),
        pytest.param(tcp(start_s=9, stop_s=9), "outside the run, *or empty|or empty", id="no time at all"),
        pytest.param(tcp(name="Two Words"), "name", id="bad name"),
        pytest.param(tcp(pattern={"kind": "sawtooth"}), "sawtooth|kind", id="unknown pattern"),
    ],
)
def test_a_bad_flow_is_refused(flow: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        scenario(flow)


@pytest.mark.parametrize(
    ("bursts", "at"),
    [
        pytest.param([{"start_s": 1, "packets": 2000, "rate_bps": 10_000_000}, {"start_s": 2.9, "packets": 1}], 1, id="overlap"),
        pytest.param([{"start_s": 29, "packets": 2000, "rate_bps": 10_000_000}], 0, id="after the end"),
    ],
)
def test_bursts_that_overlap_or_outlast_the_recording_are_refused(bursts: list[dict[str, object]], at: int) -> None:
    with pytest.raises(ValidationError, match=rf"probe\.bursts\[{at}\].*change start_s"):
        scenario(probe={"bursts": bursts})


def test_a_recording_from_before_there_were_bursts_is_still_the_one_asked_for() -> None:
    assert scenario_digest(scenario()) == scenario_digest(scenario(probe={"bursts": []})) == "62339db4be930bff"
    assert scenario_digest(scenario(probe={"bursts": [{"start_s": 1, "packets": 1}]})) != scenario_digest(scenario())


@pytest.mark.parametrize(
    "changes", [{"queue": "codel"}, {"police": {"rate_bps": 20_000_000}}, {"police_udp": {"rate_bps": 5_000_000}}, {"thin_acks": 4}]
)
def test_a_recording_from_before_there_were_queues_is_that_of_the_plain_path_alone(changes: dict[str, object]) -> None:
    plain = {"queue": "drop-tail", "police": None, "police_udp": None, "thin_acks": 1}
    assert scenario_digest(scenario(path=path(**plain))) == "62339db4be930bff"
    other = scenario(path=path(**changes))
    assert scenario_digest(other) != "62339db4be930bff"
    assert scenario().path.is_plain and not other.path.is_plain


def test_a_recording_from_before_there_was_another_emulator_is_that_of_the_first_one() -> None:
    assert scenario_digest(scenario(path=path(emulator="fairlead-wan"))) == "62339db4be930bff"
    other = scenario(path=path(emulator="kernel"))
    assert scenario_digest(other) != "62339db4be930bff"
    assert other.path.is_plain


def test_two_flows_of_one_name_are_refused() -> None:
    with pytest.raises(ValidationError, match="is taken"):
        scenario(tcp("a"), tcp("a", "bbr"))


@pytest.mark.parametrize("name", named_scenarios())
def test_every_scenario_that_comes_along_is_valid_and_named_as_its_file(name: str) -> None:
    assert load_scenario(name).name == name
    assert load_scenario(name).description


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            "name = 'x'\nduration_s = 30\n[path]\nrate_bps = 1\nrtt_ms = 5\nbuffer_bdp = 1\n", r"bad\.toml: path\.rate_bps: ", id="value"
        ),
        pytest.param("name = 'x'\nduration = 30\n", r"bad\.toml: duration: is not a field here", id="misspelt"),
        pytest.param("name = 'x'\n", r"bad\.toml: path: Field required", id="missing"),
        pytest.param("name = \n", r"bad\.toml: is not TOML", id="not TOML"),
        pytest.param(
            "name = 'x'\nduration_s = 30\npath = { rate_bps = 1e7, rtt_ms = 5, buffer_bdp = 1 }\n[[flows]]\nname = 'a'\n",
            r"bad\.toml: flows\[0\]: a tcp flow needs",
            id="in a list",
        ),
        pytest.param(
            "name = 'x'\nduration_s = 30\npath = { rate_bps = 1e7, rtt_ms = 5, buffer_bdp = 1, queue = 'pie' }\n",
            r"bad\.toml: path\.queue: .*'codel' or 'fq-codel', got 'pie'",
            id="kind of queue",
        ),
        pytest.param(
            "name = 'x'\nduration_s = 30\npath = { rate_bps = 1e7, rtt_ms = 5, buffer_bdp = 1, police_udp = { rate = 1e6 } }\n",
            r"bad\.toml: path\.police_udp\.rate_bps: Field required\n.*path\.police_udp\.rate: is not a field here",
            id="policing misspelt",
        ),
    ],
)
def test_a_bad_file_is_named_with_its_field(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(text)
    with pytest.raises(CommandUsageError, match=message):
        load_toml(file, Scenario)


def test_bytes_that_are_no_text_a_missing_file_and_a_huge_one_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    with pytest.raises(CommandUsageError, match="cannot be read: No such file"):
        load_toml(file, Scenario)
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(CommandUsageError, match="is not TOML"):
        load_toml(file, Scenario)
    file.write_bytes(b"#" * 1_000_001)
    with pytest.raises(CommandUsageError, match="over 1000000 bytes"):
        load_toml(file, Scenario)


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(CommandUsageError, match="constant-tcp"):
        load_scenario("no-such-thing")


def test_a_flow_lasts_from_the_warm_up_to_the_end_unless_it_says_otherwise() -> None:
    (single,) = single_flows(scenario(tcp()))
    assert list(single.on_phases()) == [(-5, 30)]


def test_a_square_wave_is_cut_at_the_end() -> None:
    (single,) = single_flows(scenario(tcp(start_s=-2, stop_s=22, pattern=ON_OFF)))
    assert list(single.on_phases()) == [(-2, 8), (18, 22)]


def test_copies_of_a_flow_have_numbers_and_seeds_of_their_own() -> None:
    flows = single_flows(scenario(tcp("a", count=2), tcp("b")))
    assert [flow.name for flow in flows] == ["a-1", "a-2", "b"]
    assert [flow.number for flow in flows] == [0, 1, 2]
    assert len({flow.seed for flow in flows}) == 3
    assert flows == single_flows(scenario(tcp("a", count=2), tcp("b")))
    assert flows[0].seed != single_flows(scenario(tcp("a", count=2), tcp("b"), seed=2))[0].seed


def test_a_congestion_control_that_the_kernel_lacks_is_named_with_its_flow() -> None:
    require_congestion_controls(scenario(tcp("a", "cubic"), udp()), ["reno", "cubic"])
    with pytest.raises(CommandUsageError, match=r"flow a: this kernel has no htcp, it offers reno, cubic"):
        require_congestion_controls(scenario(tcp("a", "htcp")), ["reno", "cubic"])
