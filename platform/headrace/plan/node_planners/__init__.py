"""One planner for each kind of node. It checks a node of the pipeline against the streams that it reads. Pure."""
