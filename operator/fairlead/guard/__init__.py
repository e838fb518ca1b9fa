"""The guard on a node: it holds the caps of senders on the node's own network whatever the movers do."""
