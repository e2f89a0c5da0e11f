"""The commands that maintain an archive: compact, truncate, vacuum, verify, migrate, copy; a module for each.

Imports `cli.shared` and everything below the command.
"""
