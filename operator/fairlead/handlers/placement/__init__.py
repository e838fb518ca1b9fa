"""Decides for all jobs at once where they run; the job workers start them there."""
