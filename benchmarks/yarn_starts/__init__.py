"""How long jobs take to start on YARN, beside Flink."""
