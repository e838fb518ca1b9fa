"""One run of a cell: namespaces, path and background of the test bed, and real movers with whoever steers them."""
