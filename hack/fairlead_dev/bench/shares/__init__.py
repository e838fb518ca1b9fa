"""What the default job takes of a path, beside one flow and alone, against fixed choices."""
