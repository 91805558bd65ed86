"""From the pipeline model to an executable plan: logical (schemas flow), physical (tasks and edges), explain. No
I/O."""
