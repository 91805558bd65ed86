"""The journal of a job: records, what they decide, who may write, what a recovery restores, what is an orphan."""
