"""axe-core (https://github.com/dequelabs/axe-core, MPL 2.0), which checks a page in a browser."""

import hashlib
import io
import os
import tarfile
import urllib.error
import urllib.request
from pathlib import Path

from scripts.services import UnavailableError, cache_folder

VERSION = "4.14.0"
REGISTRY = os.environ.get("NPM_REGISTRY", "https://registry.npmjs.org")
URL = f"{REGISTRY}/axe-core/-/axe-core-{VERSION}.tgz"
SHA256 = "2277b0a3ef47af9b52497faa3e71598e86e0a0e5e6eb295207a5657ede4709af"
TIMEOUT_SECONDS = 60


def axe_script() -> Path:
    """Return the script; fetch it the first time (0.7 MB)."""
    path = cache_folder() / f"axe-{VERSION}.min.js"
    if path.exists():
        return path
    try:
        # The address is a constant of ours.
        with urllib.request.urlopen(URL, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310
            package = answer.read()
    except (urllib.error.URLError, OSError) as error:
        raise UnavailableError(f"no axe-core: {URL} cannot be fetched: {error}") from None
    if hashlib.sha256(package).hexdigest() != SHA256:
        raise UnavailableError(f"no axe-core: {URL} is not the expected file")
    with tarfile.open(fileobj=io.BytesIO(package)) as files:
        script = files.extractfile("package/axe.min.js")
        assert script is not None
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}")
        part.write_bytes(script.read())
        part.replace(path)
    return path
