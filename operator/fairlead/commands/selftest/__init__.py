"""`fairlead selftest`, which `helm test` runs: moves a file between two nodes and looks whether it arrived."""
