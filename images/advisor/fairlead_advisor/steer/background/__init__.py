"""Tells what else is on a path: `survey` samples and asks the classifier, `quiet` holds the data back for it, `lookout` says when."""
