"""A job's connector host: the child process, its client, and its life over the attempts of the job."""
