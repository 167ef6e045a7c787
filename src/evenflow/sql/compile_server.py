"""The process that compiles SQL for a driver: `python -m evenflow.sql.compile_server FD`.

It reads requests from the socket FD and answers each with a program or a refusal. A request that
exceeds the CPU limit ends the process; the driver starts another one.
"""

import math
import os
import resource
import sys
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection

import pyarrow as pa

from evenflow.errors import InputError, shorten
from evenflow.model.codes import QueryForm
from evenflow.sql.catalog import Catalog, Stream, read_schema
from evenflow.sql.engine import Engine
from evenflow.sql.process_limits import limit_memory
from evenflow.sql.program import KeyArgument, Program, compile_query, compile_template
from evenflow.sql.spill import EngineMemory
from evenflow.sql.trial import TooExpensiveError, try_program

CPU_SECONDS = 3
WALL_SECONDS = 60.0  # a busy machine may need much more than the CPU time
BATCHES_FIRST = 5  # niceness: on a machine with few cores, batches come first
MEMORY_BYTES = 768 << 20  # on top of what the idle process has
ENGINE_MEMORY_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class CompileRequest:
    """A query or a template, and what it may read; with `subscriptions`, they are tried."""

    form: str
    name: str
    text: str
    catalog: Catalog
    key: KeyArgument | None = None
    subscriptions: pa.Table | None = None


_WARM_UP = CompileRequest(
    QueryForm.QUERY,
    "warm_up",
    "SELECT count(*) AS n, max(b.x) AS m FROM s a JOIN s b ON a.x = b.x AND a.ts = b.ts "
    "GROUP BY window(a.ts, '1 second'), a.x",
    Catalog({"s": Stream(read_schema("ts TIMESTAMP, x STRING"), "ts")}),
)


def compile_and_try(request: CompileRequest, engine: Engine) -> Program:
    """Compile a request and run it on made-up rows of each input."""
    compile_ = compile_template if request.form == QueryForm.TEMPLATE else compile_query
    program = compile_(request.name, request.text, request.catalog, request.key)
    try_program(program, request.catalog, engine, WALL_SECONDS, request.subscriptions)
    return program


def serve(connection: Connection) -> None:
    """Answer each request with (program or refusal, whether this process goes on)."""
    engine = Engine(memory=EngineMemory(ENGINE_MEMORY_BYTES), statement_seconds=WALL_SECONDS)
    compile_and_try(_WARM_UP, engine)  # imports and first allocations do not count
    limit_memory(MEMORY_BYTES)
    while True:
        try:
            request: CompileRequest = connection.recv()
        except EOFError:
            return
        _limit_cpu(CPU_SECONDS)
        answer: Program | str
        is_sound = True
        try:
            answer = compile_and_try(request, engine)
        except TooExpensiveError as expensive:
            answer, is_sound = str(expensive), False
        except InputError as refused:
            answer = str(refused)
        except MemoryError:
            answer = f"query {request.name!r} needs too much memory to be compiled; split it"
            is_sound = False
        except Exception as error:  # a fault of ours
            answer = f"query {request.name!r} cannot be compiled: {type(error).__name__}: {error}"
            is_sound = False
        connection.send((shorten(answer) if isinstance(answer, str) else answer, is_sound))
        if not is_sound:
            return  # libraries may be in any state after memory has run out


def _limit_cpu(seconds: int) -> None:
    """Let the system end this process after some more seconds of CPU time."""
    limit = math.ceil(time.process_time()) + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))


if __name__ == "__main__":
    os.nice(BATCHES_FIRST)
    serve(Connection(int(sys.argv[1])))
