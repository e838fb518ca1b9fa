"""Decisions as they are published and kept, and as a person reads them."""
