"""A remote store in memory: takes the way of object stores, without a server."""

from obstore.store import MemoryStore

from evenflow.storage.file_store import FileStore
from evenflow.storage.object_files import ObjectFiles
from evenflow.storage.options import StorageOptions


def memory_store() -> FileStore:
    """Return an empty remote store that only this process sees."""
    store = FileStore("s3://memory/flow", options=StorageOptions(cache_bytes=0))
    assert isinstance(store._files, ObjectFiles)
    store._files._store = MemoryStore()
    return store
