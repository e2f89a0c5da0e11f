"""moto's S3 server, whose conditional PUT looks first and writes then."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import boto3

from bench.support.loopback import running

if TYPE_CHECKING:
    from collections.abc import Iterator

BUCKET = "archives"


@contextlib.contextmanager
def running_moto() -> Iterator[dict[str, str]]:
    """Start the server with an empty bucket; yields the ``AWS_*`` variables that lead a client there."""
    program = Path(sys.executable).parent / "moto_server"
    with running(lambda port: [program, "--host", "127.0.0.1", "--port", str(port)], {}) as (port, _):
        endpoint = f"http://127.0.0.1:{port}"
        client = boto3.client(
            "s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="any", aws_secret_access_key="any"
        )
        client.create_bucket(Bucket=BUCKET)
        client.close()
        yield {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "any",
            "AWS_SECRET_ACCESS_KEY": "any",
        }
