"""When an agent's loop calls, with a clock that is late."""

import time

from fairlead_dev.testbed.agents.loop import AgentLoop


def test_what_is_due_until_the_end_is_called_in_order_however_late_the_loop_is() -> None:
    loop, called = AgentLoop(), []
    loop.start_at(time.monotonic_ns() - 10_000_000_000)
    for moment_s in (3.0, 1.0, 2.0):
        loop.at(moment_s, lambda moment_s=moment_s: called.append(moment_s))
    loop.run_until(2.0)
    assert called == [1.0, 2.0]
