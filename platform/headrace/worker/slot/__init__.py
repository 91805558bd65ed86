"""A slot process: one attempt of one job, its slice, links, lease and deployed plan."""
