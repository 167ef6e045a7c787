"""Where a checkpoint may be: a local folder, or a bucket of S3, Google Cloud Storage or Azure."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from evenflow.errors import InputError

REMOTE_SCHEMES = ("s3", "s3a", "gs", "abfss", "abfs", "az")
_INSTEAD = {
    "dbfs": "use the URI of the bucket (s3://, gs:// or abfss://), or the path of a volume "
    "(/Volumes/...) on a single machine",
    "hdfs": "mount it as a folder that all machines see, or use s3://, gs:// or abfss://",
    "wasb": "use abfss://container@account.dfs.core.windows.net/path",
    "wasbs": "use abfss://container@account.dfs.core.windows.net/path",
    "r2": "use s3:// with the storage option endpoint",
    "http": "use s3:// with the storage option endpoint",
    "https": "use s3:// with the storage option endpoint",
    "gcs": "use gs://",
    "gcsfuse": "use gs://",
    "azure": "use abfss://container@account.dfs.core.windows.net/path",
    "adl": "use abfss://container@account.dfs.core.windows.net/path",
}


def normalize_uri(root: str) -> str:
    """Return a URI without a trailing slash; a plain path becomes file:.

    >>> normalize_uri("/data/flow/"), normalize_uri("s3a://bucket/flow/")
    ('file:///data/flow', 's3a://bucket/flow')
    >>> normalize_uri("dbfs:/flow")
    Traceback (most recent call last):
    ...
    evenflow.errors.InputError: a checkpoint cannot be at 'dbfs:/flow': use the URI of the bucket...
    """
    parts = urlsplit(root)
    if len(parts.scheme) <= 1:
        return Path(root).absolute().as_uri()
    if parts.scheme == "file":
        return Path(unquote(parts.path)).as_uri()
    if parts.scheme not in REMOTE_SCHEMES:
        instead = _INSTEAD.get(parts.scheme, "use a local path, s3://, s3a://, gs:// or abfss://")
        raise InputError(f"a checkpoint cannot be at {root!r}: {instead}")
    if not parts.netloc:
        raise InputError(f"a checkpoint needs a bucket, as in s3://bucket/flow; got {root!r}")
    return root.rstrip("/")


def local_path(uri: str) -> Path | None:
    """Return the folder of a normalized URI; None if it is remote."""
    parts = urlsplit(uri)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None
