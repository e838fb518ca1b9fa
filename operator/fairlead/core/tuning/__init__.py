"""What an administrator should set on a data transfer node, and why. Pure functions of what is known of nodes and paths."""
