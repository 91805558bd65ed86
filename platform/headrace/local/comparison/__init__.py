"""Compares rows and formats their differences.

`row_equality` compares frames in bulk, `spilled_rows` compares more rows than fit into memory. `row_diff` compares the
remaining rows one by one and pairs similar ones. `difference_report` formats a difference as lines and JSON, `row_text`
formats single rows.
"""
