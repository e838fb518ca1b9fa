"""What is known of the paths between nodes: what transfers measured there, for how long it is believed, and who may probe."""
