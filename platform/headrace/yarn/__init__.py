"""Hadoop YARN: a client of the ResourceManager, and the ApplicationMaster's side of an application."""
