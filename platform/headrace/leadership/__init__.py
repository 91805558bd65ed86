"""Leadership of a cluster: electors select the coordinator that may lead, locators find the one that leads."""
