"""The clusters the demo can run on, behind one interface."""
