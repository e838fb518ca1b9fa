import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_advisor.decide.rule import Limits, PathMeasurement, Reason, decide

MEASURED = PathMeasurement(rtt_s=0.06, rtt_minimum_s=0.0598, loss_ratio=0.005, samples=200)
SILENT = PathMeasurement(rtt_s=None, rtt_minimum_s=None, loss_ratio=1.0, samples=200)
UNTRIED = PathMeasurement(rtt_s=None, rtt_minimum_s=None, loss_ratio=None, samples=0)


@pytest.mark.parametrize(
    ("path", "limits", "congestion_control", "streams", "reason"),
    [
        pytest.param(MEASURED, Limits(), "cubic", 4, Reason.NO_MODEL, id="no model"),
        pytest.param(SILENT, Limits(), "cubic", 4, Reason.PROBE_FAILED, id="no echo"),
        pytest.param(UNTRIED, Limits(), "cubic", 4, Reason.PROBE_FAILED, id="no probe"),
        pytest.param(MEASURED, Limits(1, 2), "cubic", 2, Reason.NO_MODEL, id="fewer streams allowed"),
        pytest.param(MEASURED, Limits(8, 16), "cubic", 8, Reason.NO_MODEL, id="more streams demanded"),
        pytest.param(MEASURED, Limits(1, 1), "cubic", 1, Reason.NO_MODEL, id="one stream"),
        pytest.param(MEASURED, Limits(congestion_control="bbr"), "bbr", 4, Reason.USER_CHOICE, id="the user's choice"),
        pytest.param(SILENT, Limits(congestion_control="bbr"), "bbr", 4, Reason.USER_CHOICE, id="the user's choice without an echo"),
        pytest.param(MEASURED, Limits(congestion_control="cubic"), "cubic", 4, Reason.USER_CHOICE, id="the user chooses the default"),
        pytest.param(MEASURED, Limits(available=frozenset({"reno", "bbr"})), "reno", 4, Reason.NO_MODEL, id="no cubic in the kernel"),
        pytest.param(MEASURED, Limits(available=frozenset({"reno", "cubic"})), "cubic", 4, Reason.NO_MODEL, id="cubic in the kernel"),
        pytest.param(MEASURED, Limits(available=frozenset()), "reno", 4, Reason.NO_MODEL, id="every kernel has reno"),
    ],
)
def test_the_choice(path: PathMeasurement, limits: Limits, congestion_control: str, streams: int, reason: Reason) -> None:
    decision = decide(path, limits)
    assert (decision.protocol, decision.congestion_control, decision.streams) == ("TCP", congestion_control, streams)
    assert decision.reason is reason
    assert decision.abstained == (reason is not Reason.USER_CHOICE)


@pytest.mark.parametrize(
    ("path", "limits", "message"),
    [
        (
            MEASURED,
            Limits(),
            "The path has an RTT of 60.0 ms and lost 0.5% of 200 requests; cubic with 4 streams: "
            "no classifier is installed to tell the background traffic, so that the safe default stands",
        ),
        (
            SILENT,
            Limits(1, 1),
            "The echo service answered none of 200 requests; cubic with 1 stream: "
            "nothing is known about the path, so that the safe default stands",
        ),
        (UNTRIED, Limits(congestion_control="bbr"), "The path could not be probed; bbr with 4 streams: the job asks for bbr"),
    ],
)
def test_the_message_tells_the_measurement_the_choice_and_the_ground(path: PathMeasurement, limits: Limits, message: str) -> None:
    assert decide(path, limits).message == message


@given(st.integers(1, 256), st.integers(0, 255), st.none() | st.just("bbr"))
def test_the_streams_stay_within_the_limits(minimum: int, extra: int, chosen: str | None) -> None:
    assert minimum <= decide(MEASURED, Limits(minimum, minimum + extra, chosen)).streams <= minimum + extra
