"""Network labs on one machine: namespaces, links, and the programs that run there. Needs only the standard library."""
