"""One job's driver: executes the effects of its machine; its threads and its lane to storage."""
