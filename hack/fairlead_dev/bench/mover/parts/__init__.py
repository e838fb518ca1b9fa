"""The measurements, each a function from the bench to its rows."""
