"""What can be watched: panels of the boards with data, and questions that they answer."""
