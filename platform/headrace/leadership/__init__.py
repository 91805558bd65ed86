"""Who leads a cluster: electors, which say which coordinator may try, and locators, by which others find it."""
