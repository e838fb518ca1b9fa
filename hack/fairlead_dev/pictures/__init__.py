"""The drawn pictures of the documentation, as SVG on white: they read the same on the site, in the repository and in the dark."""
