"""The objects that the operator creates, rendered from jobs and actions."""
