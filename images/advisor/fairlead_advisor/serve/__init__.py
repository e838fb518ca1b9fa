"""The sidecar beside a sending mover: measures, decides, applies, and tells."""
