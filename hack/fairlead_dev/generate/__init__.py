"""Writes what is generated from the resource models: the CRDs, their copy in the chart, the reference pages."""
