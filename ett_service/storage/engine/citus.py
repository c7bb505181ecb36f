"""Citus: the same schema, with the rows of jobs spread over several PostgreSQL servers by job.

Here alone anybody asks for it: every other statement is one that a single PostgreSQL and Citus both
take. Tables of jobs have the project and the job in their primary key, and all rows of a job
lie on one node, so a fold is at one. What jobs refer to is on every node, and all else on the
coordinator.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Row, Table, event, text

from ett_service.storage.engine.errors import WrongStore
from ett_service.storage.schema import cohort, job, metadata, project

_BY = job.c.job.name
EVERYWHERE = (project, cohort)
"""On every node, as rows of jobs refer to them or are joined with them."""

_IS_THERE = text("SELECT to_regclass('pg_dist_partition') IS NOT NULL")
_HAS_COORDINATOR = text("SELECT EXISTS (SELECT FROM pg_dist_node WHERE groupid = 0)")
_SPREAD = text(
    "SELECT relname FROM pg_dist_partition JOIN pg_class ON pg_class.oid = logicalrelid "
    "WHERE relnamespace = current_schema()::regnamespace "
    "AND (partmethod = 'h' OR (partmethod = 'n' AND repmodel = 't'))"
)
_TABLES = text("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
_SIZES = text(
    "SELECT relname, citus_total_relation_size(logicalrelid, fail_on_error => false) "
    "FROM pg_dist_partition JOIN pg_class ON pg_class.oid = logicalrelid "
    "WHERE relnamespace = current_schema()::regnamespace"
)
_REFERENCES = text(
    "SELECT conrelid::regclass AS of_table, conname AS name, pg_get_constraintdef(oid) AS said "
    "FROM pg_constraint WHERE contype = 'f' AND connamespace = current_schema()::regnamespace "
    "AND (conrelid = ANY (CAST(:tables AS regclass[])) "
    "OR confrelid = ANY (CAST(:tables AS regclass[])))"
)
_ONE_BY_ONE = "SET LOCAL citus.multi_shard_modify_mode TO 'sequential'"
#: A transaction that read many shards at once could not insert a cohort, which is on every node.
#: Two mergers take folds of other slots, and need not wait for each other. Two transactions that
#: insert a cohort must: each could be first on another node, and they would wait in a circle.
_OF_SESSIONS = {
    "citus.multi_shard_modify_mode": "sequential",
    "citus.enable_deadlock_prevention": "off",
    "citus.all_modifications_commutative": "off",
}
_SET = """
DO $$ BEGIN EXECUTE format(
    'ALTER DATABASE %I SET {name} TO {value}', current_database()
); END $$
"""

#: Citus leaves a trigger out that is for TRUNCATE, too: a table that only grows needs one more.
_REFUSE_EMPTYING_APART = (
    "DROP TRIGGER audit_log_only_grows ON audit_log",
    *(
        f"CREATE TRIGGER {name} BEFORE {changes} ON audit_log "
        "FOR EACH STATEMENT EXECUTE FUNCTION ett_audit_log_only_grows()"
        for name, changes in (
            ("audit_log_only_grows", "UPDATE OR DELETE"),
            ("audit_log_is_not_emptied", "TRUNCATE"),
        )
    ),
)


def is_of_jobs(table: Table) -> bool:
    """Whether each row belongs to a job, which its key says."""
    return {column.name for column in job.primary_key} <= {each.name for each in table.primary_key}


@contextmanager
def spreading(conn: Connection, *, asked: bool) -> Iterator[None]:
    """Change the schema in the block, then spread what is new over the nodes if *asked* to.

    What is spread already stays so, and what the block makes beside it is spread unasked.

    Raises:
        WrongStore: It was asked for, and the database is no coordinator of Citus.
    """
    if asked:
        _require_coordinator(conn)
    is_spread = job.name in _spread(conn)
    if not (asked or is_spread):
        yield
        return
    conn.exec_driver_sql(_ONE_BY_ONE)
    if is_spread:
        with _made_on_the_coordinator(conn):
            yield
    else:
        yield
    for name, value in _OF_SESSIONS.items():
        conn.execute(text(_SET.format(name=name, value=value)))
    if not is_spread:
        for statement in _REFUSE_EMPTYING_APART:
            conn.exec_driver_sql(statement)
    _spread_new(conn)


def _spread(conn: Connection) -> set[str]:
    """Return the names of tables that are spread, or on every node."""
    if conn.dialect.name != "postgresql" or not conn.scalar(_IS_THERE):
        return set()
    return set(conn.scalars(_SPREAD))


def sizes(conn: Connection) -> dict[str, int]:
    """Return the bytes of tables on all nodes, with their indexes, where any are spread."""
    if not _spread(conn):
        return {}
    return {name: int(size) for name, size in conn.execute(_SIZES) if size is not None}


def _require_coordinator(conn: Connection) -> None:
    if not conn.scalar(_IS_THERE):
        raise WrongStore(
            "This database has no extension citus.",
            "Load citus with shared_preload_libraries, then run: CREATE EXTENSION citus",
        )
    if not conn.scalar(_HAS_COORDINATOR):
        raise WrongStore(
            "This database's server is not known to Citus as the coordinator.",
            "Run there, with its own address: SELECT citus_set_coordinator_host('HOST', PORT)",
        )


@contextmanager
def _made_on_the_coordinator(conn: Connection) -> Iterator[None]:
    """Have tables of jobs made in the block on the coordinator alone.

    Citus refuses a table that refers to one that is spread, before it is spread itself.
    """

    def begin(table: Table, *_: object, **__: object) -> None:
        if is_of_jobs(table):
            _propagate(conn, "off")

    def end(*_: object, **__: object) -> None:
        _propagate(conn, "on")

    listeners = (("before_create", begin), ("after_create", end))
    for name, listener in listeners:
        event.listen(Table, name, listener)
    try:
        yield
    finally:
        for name, listener in listeners:
            event.remove(Table, name, listener)


def _propagate(conn: Connection, on: str) -> None:
    conn.exec_driver_sql(f"SET LOCAL citus.enable_ddl_propagation TO {on}")


def _spread_new(conn: Connection) -> None:
    left = set(conn.scalars(_TABLES)) - _spread(conn)
    tables = [table for table in metadata.sorted_tables if table.name in left]
    everywhere = [table for table in tables if table in EVERYWHERE]
    of_jobs = [table for table in tables if is_of_jobs(table)]
    references = _without_references(conn, [*everywhere, *of_jobs])
    for table in everywhere:
        conn.execute(text("SELECT create_reference_table(:name)"), {"name": table.name})
    for table in sorted(of_jobs, key=lambda table: table is not job):
        beside = "none" if table is job else job.name
        conn.execute(
            text("SELECT create_distributed_table(:name, :by, colocate_with => :beside)"),
            {"name": table.name, "by": _BY, "beside": beside},
        )
    for table, name, said in references:
        conn.exec_driver_sql(f"ALTER TABLE {table} ADD CONSTRAINT {name} {said}")


def _without_references(
    conn: Connection, tables: Sequence[Table]
) -> Sequence[Row[*tuple[Any, ...]]]:
    """Drop the foreign keys of *tables* and those to them, and return what they said."""
    named = {"tables": [table.name for table in tables]}
    references = conn.execute(_REFERENCES, named).all()
    _propagate(conn, "off")
    for table, name, _ in references:
        conn.exec_driver_sql(f"ALTER TABLE {table} DROP CONSTRAINT {name}")
    _propagate(conn, "on")
    return references
