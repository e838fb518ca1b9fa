"""Subcommands of `fairlead` that need no cluster."""
