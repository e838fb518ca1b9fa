"""What the node guard lets a mover send that does not obey, second by second."""
