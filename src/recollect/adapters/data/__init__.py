"""The data engine: DuckDB in child processes that can do no harm.

`engine` fills the port; `pool` and `messages` keep the children and talk to them. What runs in a child: `child` (its
main loop), `confinement` (what the system holds it to), `database` (a fresh DuckDB for each job, locked), the SQL rules
(`sql_rules`, `sql_leniency`, `sql_wall`), `results` and `exports`, the readers of files in `files/`, and `profiles`,
`meanings` and `joins`.
"""
