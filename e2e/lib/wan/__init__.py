"""A wide-area link of a test's own, other people's flows over it, and what the kernel says of its connections."""
