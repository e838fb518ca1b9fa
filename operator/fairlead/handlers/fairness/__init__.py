"""The loop that shares links among all jobs: it reads what the job workers note, and says what each job may have."""
