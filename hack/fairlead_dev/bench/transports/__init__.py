"""The mover's transports beside each other, and a scavenger beside a normal flow."""
