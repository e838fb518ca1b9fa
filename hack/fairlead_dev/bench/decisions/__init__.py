"""What the advisor's choice of congestion control is worth, against fixed choices and the paper's loop, beside real background.

The paper is OPS, *Optimization through Protocol Selection* [Anvari 2021].
"""
