"""The test bed: processes, network namespaces, links, trees of files."""
