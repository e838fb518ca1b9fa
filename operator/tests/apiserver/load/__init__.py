"""A large cluster around one operator, to see what it does under load."""
