"""The driver of one command, `replay` or `replay --follow`: a pure machine over the journal's events.

`machine` decides, `effects` and `events` are its words; `headrace.spark.driver.shell` performs the effects.
"""
