"""What is known of the paths between nodes: what transfers measured there, for how long it is used, and who may probe."""
