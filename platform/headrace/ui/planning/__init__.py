"""Checks and plans a pipeline that a user has written on a page, before it is sent."""
