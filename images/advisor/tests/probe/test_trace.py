import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairlead_advisor.errors import OutputError, TraceError
from fairlead_advisor.probe.trace import MAXIMUM_BYTES, read_trace, write_trace
from tests.support.traces import steady, trace_of

HEADER = b"send_time_s,rtt_ms\n"
ROWS = st.lists(st.tuples(st.integers(0, 10**10), st.none() | st.integers(0, 10**8)), unique_by=lambda row: row[0], max_size=50).map(
    lambda rows: [(time / 1e6, None if rtt is None else rtt / 1e4) for time, rtt in sorted(rows, key=lambda row: row[0])]
)


@given(ROWS)
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
def test_reads_back_what_it_wrote(tmp_path: Path, rows: list[tuple[float, float | None]]) -> None:
    path = tmp_path / "trace.csv"
    write_trace(path, trace_of(rows))
    assert list(read_trace(path).rows()) == rows


@given(st.binary(max_size=200), st.booleans())
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
def test_arbitrary_content_is_a_trace_or_a_trace_error(tmp_path: Path, content: bytes, with_header: bool) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(HEADER + content if with_header else content)
    try:
        trace = read_trace(path)
    except TraceError as error:
        assert str(path) in str(error)
    else:
        times = list(trace.send_times_s)
        assert times == sorted(set(times))


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        pytest.param(b"", "is empty: probe again", id="empty"),
        pytest.param(b"time,rtt\n0,1\n", "line 1: the header is 'time,rtt', it must be `send_time_s,rtt_ms`", id="wrong header"),
        pytest.param(b"0.0,60\n0.05,60\n", "line 1: the header is '0.0,60'", id="no header"),
        pytest.param(b"\n" + HEADER, "line 1: the header is ''", id="blank first line"),
        pytest.param(b"rtt_ms\n60\n", "line 1: the header is 'rtt_ms'", id="one column"),
        pytest.param(HEADER + b"0.0,60\n0.05\n", r"line 3: 1 column\(s\) where there must be 2", id="one column in a row"),
        pytest.param(HEADER + b"0.0,60,1\n", r"line 2: 3 column\(s\)", id="three columns"),
        pytest.param(HEADER + b"0.0,60\n\n0.05,60\n", r"line 3: 0 column\(s\)", id="blank row"),
        pytest.param(HEADER + b"0.0,NaN\n", "line 2: rtt_ms is 'NaN': it must be a number of 0 or more", id="NaN"),
        pytest.param(HEADER + b"nan,1\n", "line 2: send_time_s is 'nan'", id="NaN time"),
        pytest.param(HEADER + b",1\n", "line 2: send_time_s is ''", id="no time"),
        pytest.param(HEADER + b"0.0,-1\n", "line 2: rtt_ms is '-1'", id="negative"),
        pytest.param(HEADER + b"-1,1\n", "line 2: send_time_s is '-1'", id="negative time"),
        pytest.param(HEADER + b"0.0,inf\n", "line 2: rtt_ms is 'inf'", id="infinite"),
        pytest.param(HEADER + b"0.0,1e999\n", "line 2: rtt_ms is '1e999'", id="overflow to infinity"),
        pytest.param(HEADER + b"0.0,1_0\n", "line 2: rtt_ms is '1_0'", id="underscore"),
        pytest.param(HEADER + b"0.0,60 ms\n", "line 2: rtt_ms is '60 ms'", id="with a unit"),
        pytest.param(HEADER + b"0.05,1\n0.0,1\n", "line 3: send_time_s 0 is before 0.05", id="unsorted"),
        pytest.param(b"\xff\xfe" + HEADER, "not UTF-8", id="not UTF-8"),
        pytest.param(b"\x1f\x8b\x08\0\0\0", "not UTF-8", id="compressed"),
        pytest.param(HEADER + b"0.0,\0\n", "line 2: rtt_ms is", id="zero byte"),
        pytest.param(HEADER + b'"0.0,1\n', "not CSV", id="open quote"),
        pytest.param(HEADER + b"9" * 200_000, "not CSV", id="endless line"),
    ],
)
def test_a_bad_file_is_refused_with_file_line_and_remedy(tmp_path: Path, content: bytes, complaint: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=complaint) as refusal:
        read_trace(path)
    assert str(refusal.value).startswith(str(path))


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no such file"):
        read_trace(tmp_path / "trace.csv")


def test_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="is a directory"):
        read_trace(tmp_path)


def test_a_named_pipe_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TraceError, match="is not a regular file"):
        read_trace(tmp_path / "pipe")


def test_a_file_too_large_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.touch()
    os.truncate(path, MAXIMUM_BYTES + 1)
    with pytest.raises(TraceError, match=f"at most {MAXIMUM_BYTES} are read"):
        read_trace(path)


@pytest.mark.parametrize(
    "content", [b"send_time_s,rtt_ms\r\n0.0,1\r\n", b"\xef\xbb\xbfsend_time_s,rtt_ms\n0.0,1", b"send_time_s, rtt_ms\n0.0, 1\n"]
)
def test_line_ends_spaces_and_the_mark_of_other_tools_are_read(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(content)
    assert list(read_trace(path).rows()) == [(0.0, 1.0)]


def test_writing_replaces_the_whole_file_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("older and longer than what follows" * 100)
    write_trace(path, trace_of([(0.0, 1.5), (0.05, None)]))
    assert path.read_bytes() == HEADER + b"0.000000,1.5000\n0.050000,\n"
    assert list(tmp_path.iterdir()) == [path]


def test_writing_through_a_link_replaces_its_target(tmp_path: Path) -> None:
    (tmp_path / "link.csv").symlink_to(tmp_path / "real.csv")
    write_trace(tmp_path / "link.csv", steady(3))
    assert (tmp_path / "link.csv").is_symlink()
    assert len(read_trace(tmp_path / "real.csv")) == 3


def test_an_unwritable_output_is_refused(tmp_path: Path) -> None:
    for path, complaint in (
        (tmp_path / "missing" / "trace.csv", "does not exist"),
        (tmp_path, "not a regular file"),
        (Path("/dev/null"), "not a regular file"),
        (Path("/proc/trace.csv"), "cannot be written"),
    ):
        with pytest.raises(OutputError, match=complaint):
            write_trace(path, steady(3))


def test_requests_of_the_same_moment_are_read_in_their_order(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_bytes(HEADER + b"0.05,1\n0.05,2\n0.1,3\n")
    assert list(read_trace(file).rows()) == [(0.05, 1.0), (0.05, 2.0), (0.1, 3.0)]
