"""Whether a run shows its path, or a busy machine: by the test bed's limits, as far as they are of the emulator and of flows. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from fairlead_dev.bench.lab.machine import without_rest
from fairlead_dev.bench.shares.plan import SharePath
from fairlead_dev.testbed.runs.quality import QualityLimits

LIMITS = QualityLimits()
LONGEST_SILENCE_S = 4
"""A mover that leaves so many questions in a row unanswered, one a second, was kept from running."""


def faults_of(
    path: SharePath,
    emulator: Mapping[str, Any],
    samples: Sequence[Mapping[str, Any]],
    controls: Mapping[str, Sequence[str]],
    busy_share: float,
) -> tuple[str, ...]:
    """Sentences about what was wrong; none is a good run.

    `emulator` has the statistics of both directions, `samples` tell in which seconds our movers answered, `controls` what was read back of
    the sockets by what was asked for, `busy_share` is of the processors' time. Beside the traffic there is no probe of an idle path here.
    """
    return (*_of_the_emulator(path, emulator), *_of_the_movers(samples), *_of_the_sockets(controls), *without_rest(busy_share))


def _of_the_emulator(path: SharePath, emulator: Mapping[str, Any]) -> Iterator[str]:
    longest_rtt_us = 1000 * path.rtt_ms * (1 + path.buffer_bdp)
    most_us = max(LIMITS.write_lateness_p99_us, LIMITS.write_lateness_p99_share * longest_rtt_us)
    for direction in ("ab", "ba"):
        found = emulator[direction]
        # None where the kernel does not say.
        if found["packets_overrun"] != 0:
            yield f"{direction}: the kernel dropped {found['packets_overrun']} packets before the emulator read them"
        if found["packets_dropped_memory"] or found["packets_dropped_device"]:
            yield f"{direction}: the emulator dropped packets that the path would have carried"
        late = found["write_lateness_us"]
        if late["p99"] > most_us:
            yield f"{direction}: packets were written {late['p99']:.0f} us late (p99), at most {most_us:.0f}"
        if late["max"] > LIMITS.write_lateness_max_ms * 1000:
            yield f"{direction}: a packet was written {late['max'] / 1000:.1f} ms late, at most {LIMITS.write_lateness_max_ms:g}"


def _of_the_movers(samples: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for number in range(max((len(sample["jobs"]) for sample in samples), default=0)):
        answers = [bool(sample["jobs"][number]["answered"]) for sample in samples if len(sample["jobs"]) > number]
        if True not in answers:
            yield f"mover {number} answered nothing"
            continue
        # Before its first answer it is starting.
        started = groupby(answers[answers.index(True) :])
        longest = max((len(list(run)) for answered, run in started if not answered), default=0)
        if longest > LONGEST_SILENCE_S:
            yield f"mover {number} left {longest} questions in a row unanswered, at most {LONGEST_SILENCE_S}"


def _of_the_sockets(controls: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for asked, found in controls.items():
        if set(found) != {asked}:
            yield f"the sockets' congestion control was {', '.join(found) or 'none'}, {asked} was asked for"


def data_control(listed: str, port: int) -> str | None:
    """The congestion control of the busiest connection to a port in the output of `ss -tinHO`: iperf3 has another one beside its data."""
    busiest, control = -1, None
    for line in listed.splitlines():
        to = re.search(r"\bESTAB\s+\d+\s+\d+\s+\S+\s+\S+:(\d+)\s", line)
        name, sent = re.search(r"\b(cubic|bbr|reno)\b", line), re.search(r"\bbytes_sent:(\d+)", line)
        if to and int(to[1]) == port and name and (bytes_sent := int(sent[1]) if sent else 0) > busiest:
            busiest, control = bytes_sent, name[1]
    return control
