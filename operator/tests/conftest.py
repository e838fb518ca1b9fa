"""Its place is what counts: tests in the folders below find the builders in this one."""
