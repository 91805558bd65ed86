"""The whole of headrace on this host: the local engine, the development broker, the runner of `tests:` sections."""
