"""Every TCP congestion control of Debian's kernel on the mover's live sockets, in a guest."""
