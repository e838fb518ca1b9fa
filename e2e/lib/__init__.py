"""What the end-to-end tests share: a namespace with two disks, jobs that are watched, evidence where a test fails."""
