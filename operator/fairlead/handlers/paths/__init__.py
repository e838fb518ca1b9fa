"""The paths between nodes: what job workers see of them, and the one worker that writes NetworkPaths."""
