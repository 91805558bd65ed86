"""The engine in threads of this process: for tests, previews and Python calls."""
