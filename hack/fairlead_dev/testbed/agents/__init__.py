"""The programs of a run, one process each: traffic, probe, echo. Started by the runner with a plan on standard input."""
