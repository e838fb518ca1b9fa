"""The programs that are measured: the mover and those it is compared with."""
