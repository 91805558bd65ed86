"""Failures for decided output that can never become visible, because its transactions expired or were aborted. Pure.

all of an epoch's output is lost   None of it was ever visible. To restore the checkpoint before it repeats no row and
                                   loses no row.
some is lost, some is visible      To restore the checkpoint before it repeats rows; to restore this one loses rows. The
                                   user has to choose, so the job ends.
"""

from __future__ import annotations

from headrace.checkpoint.manifest import CommittableDocument, Manifest
from headrace.core.errors import Domain
from headrace.rpc.messages import Failure


def all_lost(manifest: Manifest, lost: tuple[CommittableDocument, ...]) -> bool:
    """Whether none of the epoch's output is visible or ever will be."""
    return len(lost) == len(manifest.committables)


def output_lost(epoch: int, lost: tuple[CommittableDocument, ...]) -> Failure:
    """Returns the failure of the attempt that was to commit the output. The next attempt decides what follows."""
    sinks = ", ".join(sorted({item.sink for item in lost}))
    return Failure(
        f"output of {sinks} in epoch {epoch} was aborted or expired outside of this job before it was committed",
        Domain.EXTERNAL,
        retry=True,
        remedy="raise transaction_timeout above the longest outage that the job must survive",
    )


def mixed_loss(manifest: Manifest, lost: tuple[CommittableDocument, ...], before: Manifest | None) -> Failure:
    """Returns the failure of a job whose user has to choose."""
    epoch, job = manifest.epoch, manifest.job
    rows = sum(item.rows for item in lost)
    names = ", ".join(sorted({item.name or item.sink for item in lost}))
    back = (
        f"from checkpoint {before.epoch} (rows that are visible already come again)"
        if before is not None
        else "anew (rows that are visible already come again)"
    )
    return Failure(
        f"epoch {epoch} of job {job} is visible in part: {len(lost)} of its {len(manifest.committables)} transactions "
        f"({names}; {rows} rows) expired before they were committed",
        Domain.USER,
        retry=False,
        remedy=f"choose: submit it {back}, or --from-savepoint of checkpoint {epoch} with --allow-lost-output "
        f"(those {rows} rows are never written); `headrace checkpoints {job}` shows the paths",
    )


def not_committed(manifest: Manifest) -> Failure:
    """Returns the failure of a job that ends with a decided epoch whose output may or may not be visible."""
    return Failure(
        f"epoch {manifest.epoch} was decided, but its committers did not confirm that its output is visible",
        Domain.EXTERNAL,
        retry=True,
        remedy=f"`headrace transactions list --job {manifest.job}` shows what is still open, `commit` makes it visible",
    )


def visibility_unknown(job: str) -> Failure:
    """Returns the failure of a job that ends before it could read its journal."""
    return Failure(
        "its journal could not be read, so it is not known whether all output of its newest checkpoint is visible",
        Domain.EXTERNAL,
        retry=True,
        remedy=f"`headrace transactions list --job {job}` shows what is still open, `commit` makes it visible",
    )
