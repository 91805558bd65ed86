"""From the pipeline model to what runs: logical (schemas flow), physical (tasks and edges), explain. No I/O."""
