"""Grafana boards: made from code, checked, asked of a Prometheus, drawn, and imported into a Grafana."""
