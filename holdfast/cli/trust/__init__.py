"""The commands of what makes an archive believable: its keys, its signatures, and what was seen of it.

Imports `cli.shared` and everything below the command.
"""
