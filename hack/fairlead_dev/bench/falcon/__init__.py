"""Falcon's search for the stream count, as a rival of the advisor's: it judges by its own goodput, and spares nobody."""
