"""Debian's own kernel under QEMU, with programs of this checkout: for what this machine's kernel does not have."""
