"""Replicas of an archive: one update log in a coordination store, which each of them follows entry by entry.

`store` keeps what they agree on, in SQL; `log`, `replicas` and `trimming` are its transactions, each guarded by the
epoch of the replica that asks. `execution` and `recovery` bring archives to where the log says. The rules are those of
`docs/replication.md`, and are checked as models in `specs/`.
"""
