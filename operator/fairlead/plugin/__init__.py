"""`kubectl fairlead`: what a user of the cluster does with transfer jobs, and sees of them, from a terminal.

`cli` is the command line and `main` its entry; `jobs` reads, follows and changes objects; each command has a module or folder of its own.
Runs at a user's with the user's rights. Needs the extra `kubectl` of the package (typer and rich), which the operator's image lacks.
"""
