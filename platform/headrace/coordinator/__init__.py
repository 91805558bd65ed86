"""The coordinator (Flink's JobManager): REST, the dispatcher, one state machine and driver per job, the assignment of
slots, connector hosts."""
