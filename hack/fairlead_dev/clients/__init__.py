"""Ways to a cluster for programs that act as its users do: kubectl, commands on the local cluster's nodes, watches."""
