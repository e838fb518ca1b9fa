"""The loop that shares links among all jobs: it reads what the job workers note, and decides what each job may have."""
