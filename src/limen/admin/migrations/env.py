"""Run by alembic, on the connection that `limen.admin.migrating` gives it, within the transaction that it has begun."""

from alembic import context

from limen.admin.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
    transactional_ddl=True,  # SQLite's too, for the driver begins no transactions of its own
)
context.run_migrations()
