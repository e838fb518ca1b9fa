"""The parts of the background monitor: `change_detector`, `loaded_answers` (classification beside own data), `probe_budget`, `caps`."""
