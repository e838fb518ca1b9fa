"""How good the choice of the transport protocol is, beside the best protocol of each path."""
