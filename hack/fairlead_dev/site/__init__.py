"""The documentation as a site: which pages it has, in which order, and how they become what MkDocs reads."""
