"""Measures a network path before a transfer and chooses the transport that suits it."""
