"""The driver of one command, `replay` or `replay --follow`: a pure state machine over the job's journal.

`machine` decides, with the types of `effects` and `events`; `headrace.spark.driver.driver_shell` performs the effects.
"""
