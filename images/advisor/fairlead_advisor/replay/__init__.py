"""The event log of a transfer: written beside a running sidecar, replayed through the present code on a virtual clock."""
