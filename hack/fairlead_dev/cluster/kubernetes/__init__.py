"""Keys, control plane, nodes and add-ons."""
