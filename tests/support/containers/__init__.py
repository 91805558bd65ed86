"""Containers for tests: brokers and Headrace hosts that are killed, paused and cut off one by one.

They need a Docker engine on this machine, but no registry and no image from elsewhere: an image is made that is almost
empty, and containers see this machine's own programs, read-only.
"""
