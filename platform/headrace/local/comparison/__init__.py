"""How rows are compared, and how a difference is shown.

`row_equality` compares frames in bulk, `spilled_rows` more of them than memory holds. `row_diff` goes row by row
through what is left and pairs close rows. `difference_report` makes lines and JSON of that, `row_text` of single rows.
"""
