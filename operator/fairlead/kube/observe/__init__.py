"""What the API server and the movers show: objects and answers read into the vocabulary of the decisions."""
