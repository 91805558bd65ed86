"""The journal of a job: records and the decisions they state, write access, recovery, orphans."""
