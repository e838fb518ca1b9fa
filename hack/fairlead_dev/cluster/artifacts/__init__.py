"""What must exist before a cluster can start: programs, images and the unpacked image store."""
