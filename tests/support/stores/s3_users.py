"""A real S3 server with users: versitygw, and its own service of users and policies, as AWS has it."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3

from bench.support.loopback import running
from bench.support.versitygw import ACCESS_KEY, REGION, SECRET_KEY, S3Server, find_versitygw

_SECRETS = {"ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY}


@dataclass(frozen=True)
class S3Users:
    """A running server, and who may do what there.

    :param server: what its own administrator reaches; everything is allowed to him
    :param identities: the address of the service of users
    """

    server: S3Server
    identities: str

    def user(self, name: str, policy: dict[str, Any]) -> dict[str, str]:
        """Make a user with one policy; return the ``AWS_*`` variables that lead him to the server."""
        client = boto3.client(
            "iam",
            endpoint_url=self.identities,
            region_name=REGION,
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
        )
        client.create_user(UserName=name)
        client.put_user_policy(UserName=name, PolicyName="the-only-one", PolicyDocument=json.dumps(policy))
        key = client.create_access_key(UserName=name)["AccessKey"]
        more = {"AWS_ACCESS_KEY_ID": key["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"]}
        return {**self.server.environment, **more}


@contextlib.contextmanager
def running_s3_with_users() -> Iterator[S3Users]:
    """Start both services on free loopback ports; both, and their files, are gone when the block ends."""
    program = find_versitygw()
    with tempfile.TemporaryDirectory(prefix="holdfast-s3-") as work:
        folder, users, socket = (Path(work) / name for name in ("buckets", "users", "s"))
        folder.mkdir()
        users.mkdir()

        def identities(port: int) -> list[str | Path]:
            listens = ["--port", f"127.0.0.1:{port}", "--region", REGION, "--quiet"]
            return [program, *listens, "iam", "--dir", users, "--private-ports", socket]

        def gateway(port: int) -> list[str | Path]:
            listens = ["--port", f"127.0.0.1:{port}", "--region", REGION, "--quiet"]
            # A user's policy is in force with the next request.
            asks: list[str | Path] = ["--iam-standalone-endpoint", socket, "--iam-cache-disable"]
            return [program, *listens, *asks, "posix", folder]

        with running(identities, _SECRETS) as (asked, _), running(gateway, _SECRETS) as (port, pid):
            yield S3Users(S3Server(f"http://127.0.0.1:{port}", folder, pid), f"http://127.0.0.1:{asked}")
