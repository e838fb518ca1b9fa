import pytest

from fairlead_dev.bench.decisions.timeline import (
    ControlSpan,
    Counting,
    adaptations_s,
    first_data_s,
    flow_goodputs_bps,
    goodput_bps,
    needless_switches,
    right_at,
    right_share,
    spans,
)

from .made import VISIT, samples


def stats(**bytes_by_stream: int) -> dict[str, object]:
    return {"streams": [{"id": int(name[1:]), "bytes_sent": sent, "congestion_control": "bbr"} for name, sent in bytes_by_stream.items()]}


def test_bytes_add_up_over_streams_silences_and_new_connections() -> None:
    counting = Counting()
    told = [None, stats(s0=100), stats(s0=150, s1=10), None, stats(s0=20, s1=15), stats(s0=30)]
    counted = [counting.sample(float(number), answer).acknowledged_bytes for number, answer in enumerate(told)]
    assert counted == [0, 100, 160, 160, 185, 195]


def test_a_sample_has_what_most_streams_have_in_force() -> None:
    streams = [
        {"id": number, "bytes_sent": None, "congestion_control": name} for number, name in enumerate(("bbr", "cubic", "cubic", None))
    ]
    sample = Counting().sample(1.0, {"streams": streams})
    assert (sample.control, sample.streams, sample.acknowledged_bytes) == ("cubic", 4, 0)


def test_goodput_counts_the_time_before_the_first_data() -> None:
    seen = samples((1, 0, None), (10, 0, None), (20, 1_000_000, "cubic"))
    assert goodput_bps(seen) == pytest.approx(400_000)
    assert goodput_bps(seen, 10.0) == pytest.approx(800_000)
    assert goodput_bps(seen, 20.0) == 0.0
    assert goodput_bps(()) == 0.0
    assert first_data_s(seen) == 20
    assert first_data_s(samples((1, 0, None))) is None


def test_what_was_in_force_ends_where_the_next_begins_and_silence_changes_nothing() -> None:
    seen = samples((1, 0, None), (2, 5, "cubic"), (3, 5, None), (4, 9, "cubic"), (5, 9, "bbr"), (6, 9, None), (7, 9, None))
    assert spans(seen) == (ControlSpan("cubic", 2, 5), ControlSpan("bbr", 5, 7))
    assert spans(samples((1, 0, None))) == ()


STILL = ((0.0, "cubic"),)


@pytest.mark.parametrize(
    ("in_force", "needless"),
    [
        ([ControlSpan("cubic", 1, 200)], 0),
        ([ControlSpan("cubic", 1, 50), ControlSpan("bbr", 50, 60), ControlSpan("cubic", 60, 200)], 1),
        ([ControlSpan("bbr", 1, 50), ControlSpan("cubic", 50, 200)], 0),
        ([ControlSpan("cubic", 1, 50), ControlSpan("bbr", 50, 60), ControlSpan("cubic", 60, 70), ControlSpan("bbr", 70, 200)], 2),
        ([ControlSpan("bbr", 1, 50), ControlSpan("reno", 50, 200)], 0),
    ],
    ids=["none", "away-and-back", "towards-right", "flapping", "from-wrong-to-wrong"],
)
def test_a_switch_away_from_what_is_right_is_needless(in_force: list[ControlSpan], needless: int) -> None:
    assert needless_switches(in_force, STILL) == needless


@pytest.mark.parametrize(
    ("in_force", "adapted_s"),
    [
        ([ControlSpan("cubic", 1, 75), ControlSpan("bbr", 75, 130), ControlSpan("cubic", 130, 180)], (15, 10)),
        ([ControlSpan("cubic", 1, 180)], (60, 0)),
        ([ControlSpan("bbr", 1, 180)], (0, 60)),
        ([ControlSpan("bbr", 1, 100), ControlSpan("cubic", 100, 180)], (0, 0)),
        ([ControlSpan("cubic", 1, 130), ControlSpan("bbr", 130, 180)], (60, 0)),
        ([], (60, 60)),
    ],
    ids=["late-both-times", "never-bbr", "always-bbr", "back-too-early", "after-it-left", "no-data"],
)
def test_adaptation_lasts_until_the_right_choice_is_in_force_or_the_background_changes_again(
    in_force: list[ControlSpan], adapted_s: tuple[float, ...]
) -> None:
    assert adaptations_s(in_force, VISIT.rights(), 180) == adapted_s


def test_right_follows_the_background() -> None:
    assert [right_at(VISIT.rights(), moment_s) for moment_s in (0, 59, 60, 119, 120, 170)] == [
        "cubic",
        "cubic",
        "bbr",
        "bbr",
        "cubic",
        "cubic",
    ]


def test_the_share_of_right_time_counts_time_with_data_alone() -> None:
    in_force = [ControlSpan("cubic", 10, 90), ControlSpan("bbr", 90, 130), ControlSpan("cubic", 130, 180)]
    assert right_share(in_force, VISIT.rights()) == pytest.approx((50 + 30 + 50) / 170)
    assert right_share([], STILL) is None


def test_flows_are_averaged_over_the_asked_time() -> None:
    rows = [("0.2", "a", "10", ""), ("0.4", "a", "20", ""), ("0.4", "b", "8", ""), ("0.6", "a", "40", "")]
    assert flow_goodputs_bps(rows, 0.2, 0.6) == {"a": 30, "b": 8}
