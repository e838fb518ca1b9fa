"""The operator's part of data transfer nodes: what is known of them, for decisions, and what it writes into their status."""
