"""The shell of a Spark driver: performs the effects of its state machine (`driver_machine`), for replays and for
followed pipelines."""
