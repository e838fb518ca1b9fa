"""The benches. Each prints a table and writes build/bench/NAME.json; none fails a test run."""
