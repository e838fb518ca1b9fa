"""What is on a path and for how long: typed, validated, without effects."""
