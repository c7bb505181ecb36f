"""Pictures of the dashboards for the docs, drawn from the queries of their panels."""
