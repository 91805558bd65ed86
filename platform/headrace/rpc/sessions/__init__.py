"""Sessions of workers with their coordinator: which worker is connected, and what a dropped stream must send again."""
