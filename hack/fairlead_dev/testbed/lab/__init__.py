"""What a run needs: namespaces, the emulator, and the kernel's calls that Python 3.11 does not name."""
