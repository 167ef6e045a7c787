"""Fetches the servers that some tests need; nothing else does. Usage: python scripts/services.py

S3Proxy (https://github.com/gaul/s3proxy) is an S3 server in one jar: it runs on the Java that Spark
needs, starts in a second, stores objects as files, checks signatures, and enforces conditional
writes (412 if the key exists, exactly one of many writers wins). Its jar is on Maven Central, so
nothing has to be built: MinIO and SeaweedFS from source take minutes.
"""

import hashlib
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path

VERSION = "4.1.0"
REPOSITORY = os.environ.get("MAVEN_REPOSITORY", "https://repo.maven.apache.org/maven2")
URL = f"{REPOSITORY}/org/gaul/s3proxy/{VERSION}/s3proxy-{VERSION}-jar-with-dependencies.jar"
SHA256 = "a4d025969aaf796616ed4b1e2491d87d455ce84bb28cb9db086b2e6aaa68b48d"
TIMEOUT_SECONDS = 60


class UnavailableError(RuntimeError):
    """A service cannot be had here; the message says why."""


def cache_folder() -> Path:
    """Return where services are kept: outside the repository, so that checkouts share them."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "evenflow" / "services"


def s3_server_jar() -> Path:
    """Return the jar of the S3 server; fetch it the first time (55 MB)."""
    path = cache_folder() / f"s3proxy-{VERSION}.jar"
    if not path.exists():
        try:
            # The address is a constant of ours.
            with urllib.request.urlopen(URL, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310
                data = answer.read()
            path.parent.mkdir(parents=True, exist_ok=True)
        except (urllib.error.URLError, OSError) as error:
            raise UnavailableError(f"no S3 server: {URL} cannot be fetched: {error}") from None
        if hashlib.sha256(data).hexdigest() != SHA256:
            raise UnavailableError(f"no S3 server: {URL} is not the expected file")
        part = path.with_suffix(f".{os.getpid()}")
        part.write_bytes(data)
        part.replace(path)
    return path


if __name__ == "__main__":
    try:
        print(s3_server_jar())
    except UnavailableError as error:
        sys.exit(str(error))
