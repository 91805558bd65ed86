"""A job's connector host: the child process, its client, and its lifecycle over the attempts of the job."""
