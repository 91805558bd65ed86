"""From requests to jobs: the dispatcher, the shell of the registry, the job store, what a job needs before it runs."""
