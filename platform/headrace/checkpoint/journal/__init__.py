"""The journal of a job: its records, and the pure decisions that follow from them. `checkpoint.job_folder` reads and
appends it."""
