"""The journal of a job: its records, the decisions that follow from them, write access, recovery, orphaned files."""
