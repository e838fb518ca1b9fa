"""How good a classifier is: the figures, and the labelled traces that they are taken on."""
