"""When a running transfer stands still for a look at the path: `scene` tells that something changed, `policy` whether to look."""
