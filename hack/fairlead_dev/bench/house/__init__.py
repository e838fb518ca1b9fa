"""Measures the repository itself: lines by room, and the properties of its structure that must hold.

`counts`, `names`, `pages` and `rows` are pure functions over texts; `repository` reads the tracked files.
"""
