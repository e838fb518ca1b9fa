"""From the FairnessPolicy and what jobs are measured to use: who may start, and the cap of every sender.

`round.run_round` is one step; the rest are its parts, each a pure function of what it is given. Rates are bits per second,
times are seconds since the epoch.
"""
