"""A job's connector host: the child process with its enumerators and committers (`main`), the coordinator's client of
it (`connector_host`), and its lifecycle over the attempts of the job (`lifecycle`)."""
