"""The commands about the classifier, each with its own arguments; `cli` puts them beside the others."""
