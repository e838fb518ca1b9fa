"""What can be watched: metrics, alerts, panels of the boards with data, and questions that they answer."""
