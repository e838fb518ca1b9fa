"""Pure decisions: no clock, no network, no Kubernetes client. What is observed goes in, what is to be done comes out."""
