"""Chaos on the data plane: transfers on the local cluster whose movers, daemons, links and disks are disturbed in mid-flight."""
