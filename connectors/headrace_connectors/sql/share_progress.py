"""How far shares are published: a table beside the user's, one row for each subtask of each sink, which changes in the
same transactions as the user's table.

    headrace_published   job, sink, subtask | epoch, rows, share_rows: what is visible | owner: the newest publisher

Whoever opens a share becomes its owner. A transaction that moves the row on names its owner and how far it was: so who
is not the owner any more changes nothing, whatever it had written is rolled back.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.schema import CreateTable

from headrace.connect.publisher import Share
from headrace.connect.share_marker import ShareMarker
from headrace.connect.sink import SinkContext
from headrace.core.errors import ExternalError
from headrace_connectors.sql.client import Database
from headrace_connectors.sql.failures import is_duplicate, is_transient
from headrace_connectors.sql.tables.target import Target

PUBLISHED_TABLE = "headrace_published"


class ShareProgress:
    """The row of one share's subtask. `owner`: which publisher this is, unlike any other."""

    def __init__(self, target: Target, context: SinkContext, share: Share, *, owner: str) -> None:
        self._table = _made_table(target)
        self._share, self._owner = share, owner
        self._whose = {"job": context.job, "sink": context.node, "subtask": context.subtask}
        columns = self._table.c
        self._mine = sa.and_(*(columns[name] == value for name, value in self._whose.items()))

    def take_over(self, database: Database) -> int:
        """Becomes the owner; gives how many rows of the share are visible. Makes the table where there is none.

        Where a newer epoch is published already, its owner stays. Raises HeadraceError.
        """
        # two that make the table, or the row, at once: the one that comes second tries again
        return database.run(
            lambda connection, _: self._take_over(connection),
            again=lambda error: is_transient(error) or is_duplicate(error),
        )

    def _take_over(self, connection: sa.Connection) -> int:
        table, share = self._table, self._share
        if not sa.inspect(connection).has_table(table.name, schema=table.schema):
            connection.execute(CreateTable(table, if_not_exists=True))
        found = connection.execute(sa.select(table).where(self._mine).with_for_update()).first()
        if found is None:
            first = self._whose | {"epoch": share.epoch, "rows": 0, "share_rows": share.rows, "owner": self._owner}
            connection.execute(sa.insert(table).values(first))
            return 0
        published = ShareMarker(found.epoch, found.rows, found.share_rows).published(share)
        if found.epoch <= share.epoch:
            taken = {"epoch": share.epoch, "rows": published, "share_rows": share.rows, "owner": self._owner}
            connection.execute(sa.update(table).where(self._mine).values(taken))
        return published

    def is_at(self, connection: sa.Connection, rows: int) -> bool:
        """Whether this owner has published so many rows."""
        columns = self._table.c
        there = sa.select(columns.rows).where(self._mine, columns.owner == self._owner, columns.rows == rows)
        return connection.execute(there).first() is not None

    def advance(self, connection: sa.Connection, before: int, after: int) -> None:
        """Notes that `after` rows are visible instead of `before`, in the transaction that makes them so; its last
        statement, for it holds up who takes over. Raises ExternalError where there is a newer owner."""
        columns = self._table.c
        owned = sa.and_(self._mine, columns.owner == self._owner, columns.rows == before)
        moved = sa.update(self._table).where(owned).values(rows=after).returning(columns.rows)
        if connection.execute(moved).first() is None:
            raise ExternalError(
                f"{after - before} rows were not published: a newer publisher has taken over the share",
                remedy="nothing is to be done: that one goes on from where this one ended",
                retry=True,
            )


def _made_table(target: Target) -> sa.Table:
    return sa.Table(
        PUBLISHED_TABLE,
        sa.MetaData(),
        sa.Column("job", sa.Text(), nullable=False),
        sa.Column("sink", sa.Text(), nullable=False),
        sa.Column("subtask", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("share_rows", sa.BigInteger(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("job", "sink", "subtask"),
        schema=target.schema,
    )
