"""What to do about each error, by the name of its class, where the message itself has no better remedy."""

from __future__ import annotations

from typing import Final

REMEDIES: Final[dict[str, str]] = {
    "UserError": "correct the argument, file or setting that the message names",
    "DataError": "correct the row at its source, or let the node skip, divert or dead-letter such rows: `on_error`",
    "ExpressionError": "correct the expression at the place shown; `headrace functions` lists what may be called",
    "InvalidPipelineError": "correct each line that is named; `headrace validate FILE` checks again and runs nothing",
    "PartlyReadError": "as InvalidPipelineError; the nodes that could be read were checked as well",
    "RejectedError": "correct the description of the cluster or job that was applied to Kubernetes",
    "JobNotFoundError": "`headrace list` shows the jobs; check `--coordinator`",
    "JobConflictError": "wait for the operation that runs, stop the job that holds the name, or submit under another",
    "LedgerFormatError": "run that version of headrace or a later one, or restore a back-up from before the upgrade",
    "ExternalError": "repair what the message names: a broker, a file system, a program that is missing",
    "UnreachableError": "start the broker or cluster, or correct its address; then give the command again",
    "JournalCorruptError": "give the command again; if that fails, restore the files of the job's `journal/` folder",
    "ObjectNotFoundError": "check the path of the savepoint or checkpoint",
    "CorruptFileError": "restore the file from a back-up, or start from an earlier checkpoint or savepoint",
    "CheckpointUnusableError": "start from an earlier checkpoint or a savepoint; the message says what would repeat",
    "HdfsError": "check NameNodes, quota and permissions; see checkpoints.md, HDFS",
    "ReplacedError": "let the other driver go on, or end it and give the command again",
    "GivenUpError": "give the command again to see from what it can go on",
    "ApiError": "give the command again; if the server lacks the kind, install the custom resource definitions",
    "NotFoundError": "check name and namespace",
    "ConflictError": "nothing: headrace reads the object again",
    "AlreadyExistsError": "choose another name, or delete the object",
    "ExpiredError": "nothing: headrace lists again",
    "UnauthorizedError": "check the credentials with `kubectl auth whoami`; in a pod, its service account",
    "ForbiddenError": "bind the account to the Role that the message names; or raise the quota",
    "LedgerCorruptError": "restore the missing file of the ledger's folder",
    "LedgerReplacedError": "nothing: another coordinator leads",
    "JvmLostError": "nothing: headrace starts another JVM; the log of the command has the JVM's last lines",
    "RefusedError": "correct what YARN names: queue, memory, permissions",
    "ApplicationNotFoundError": "`headrace cluster status --target yarn` shows the applications that YARN knows",
    "NotRegisteredError": "nothing: the ApplicationMaster registers again",
    "AttemptOverError": "nothing: YARN has started another attempt",
    "ArchiveNotFoundError": "check the archive's folder; an archive that is being rewritten is read again",
    "InternalError": "report it, with the stack trace",
}
