"""What can be watched: metrics, alerts, panels with data, questions that they answer, and failures whose cause is named."""
