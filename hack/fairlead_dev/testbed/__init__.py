"""A test bed for traffic on a shared wide-area path: real kernel congestion controls over `fairlead-wan`, recorded as data sets."""
