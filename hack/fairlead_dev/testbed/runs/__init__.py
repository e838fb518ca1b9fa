"""One scenario run and judged, or many side by side."""
