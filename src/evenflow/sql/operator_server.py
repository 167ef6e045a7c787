"""The process of an isolated operator: `python -m evenflow.sql.operator_server FD CLASS BYTES`.

It imports the class, tells its columns over the socket FD, and answers each call. BYTES is the
memory it may take on top of what it has then. It ends when the worker's process does.
"""

import ctypes
import signal
import socket
import sys
from contextlib import suppress

from evenflow.errors import shorten
from evenflow.sql.operator_channel import OperatorChannel
from evenflow.sql.process_limits import limit_memory
from evenflow.sql.python_operator import Operator, import_operator

_PR_SET_PDEATHSIG = 1


def serve(channel: OperatorChannel, path: str, more_bytes: int) -> None:
    """Answer calls until the worker closes its end."""
    try:
        operator = import_operator(path)()
        asks_when_due = type(operator).next_due_us is not Operator.next_due_us
        columns = [operator.schema.empty_table(), operator.state.empty_table()]
    except BaseException as error:
        channel.send({"error": _describe(error)})
        return
    limit_memory(more_bytes)
    about = {"asks_when_due": asks_when_due, "has_merge": operator.has_merge()}
    channel.send(about, columns)
    while True:
        try:
            call, tables = channel.receive()
        except ConnectionError:
            return
        try:
            state = tables.pop()
            if "watermark_us" in call:
                rows = dict(zip(call["streams"], tables, strict=True))
                result = operator.step(rows, state, call["watermark_us"])
                channel.send({}, list(result))
            elif "part" in call:
                channel.send({}, [operator.merge(state, tables[0])])
            else:
                channel.send({"due_us": operator.next_due_us(state)})
        except ConnectionError:
            return
        except BaseException as error:
            channel.send({"error": _describe(error)})


def _describe(error: BaseException) -> str:
    with suppress(Exception):
        return shorten(f"{type(error).__name__}: {error}".encode("utf-8", "replace").decode())
    return f"{type(error).__name__}: its message cannot be read"


def _end_with_parent() -> None:
    """Let the system end this process with the worker's, also while it hangs (Linux)."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    _end_with_parent()
    end = socket.socket(fileno=int(sys.argv[1]))
    serve(OperatorChannel(end), sys.argv[2], int(sys.argv[3]))
