"""Processes that work side by side: both ends of their pipes, and the order in which their answers come back.

A process is a fresh interpreter and no fork, so that threads of the caller are not torn, and no script of the user's is
run again. What it needs comes through its standard input, what it found leaves through its standard output.
"""

import fcntl
import io
import os
import queue
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from typing import IO, Any, Final, NamedTuple

import orjson

from kg.errors import DyknowError

_AHEAD: Final = 4  # tasks handed out or answered and waiting for their turn, per worker

_FRAME: Final = struct.Struct("<IQ")


class Message(NamedTuple):
    """What one process says to another: a small thing that JSON can hold, and bytes."""

    header: Any
    body: bytes


Answers = queue.SimpleQueue["tuple[Worker, Message | None]"]

Work = Callable[[Message], Message]


def cores() -> int:
    """Return how many cores this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)  # Linux only
    return len(affinity(0)) if affinity else os.cpu_count() or 1


class Worker:
    """A process that works on one task after the other; a thread waits for its answers and hands them on."""

    def __init__(self, module: str, setup: object, answers: Answers) -> None:
        self.process = subprocess.Popen(
            (sys.executable, "-c", f"from kg import processes; import {module} as work; processes.serve(work.begin)"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            process_group=0,  # an interrupt from the keyboard is for the caller, who then ends this one
        )
        self.number = -1  # the task it works on
        self._answers = answers
        _widen(self._stdin.fileno())
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()
        self.send(Message(setup, b""))

    @property
    def _stdin(self) -> IO[bytes]:
        assert self.process.stdin is not None
        return self.process.stdin

    def send(self, message: Message) -> bool:
        """Hand something over; False: the process is gone."""
        try:
            _send(self._stdin, message)
        except BrokenPipeError:
            return False
        return True

    def _listen(self) -> None:
        assert self.process.stdout is not None
        with suppress(OSError, ValueError):  # closed under it when the work is given up
            while (answer := _receive(self.process.stdout)) is not None:
                self._answers.put((self, answer))
        self._answers.put((self, None))

    def end(self) -> None:
        """End the process, whatever it does: it holds nothing that could be torn."""
        self.process.kill()
        self.process.wait()
        self._thread.join()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()


def spread(
    module: str, setup: object, tasks: Iterator[Message], workers: int, doing: str
) -> Generator[Message, None, None]:
    """Yield the answers to tasks, in their order, worked on by several processes; few of either are in memory.

    Args:
        module: its function ``begin(setup)`` returns what turns a task into its answer.
        setup: what JSON can hold; every process is given it once.
        tasks: drawn as processes become free.
        workers: how many processes.
        doing: what a process does, in the past: "read dump.json.bz2".

    Raises:
        DyknowError: a process has ended before its time. However this ends, all of them are ended.
    """
    answers: Answers = queue.SimpleQueue()
    pool: list[Worker] = []
    found: dict[int, Message] = {}
    due = number = 0
    try:
        pool.extend(Worker(module, setup, answers) for _ in range(workers))
        idle = list(pool)

        def collect() -> None:
            worker, answer = answers.get()
            if answer is None:
                raise _gone(worker, doing)
            found[worker.number] = answer
            idle.append(worker)

        for number, task in enumerate(tasks, 1):
            while not idle or number - due > _AHEAD * workers:
                collect()
                while due + 1 in found:
                    due += 1
                    yield found.pop(due)
            worker = idle.pop()
            worker.number = number
            if not worker.send(task):
                raise _gone(worker, doing)
        while due < number:
            due += 1
            while due not in found:
                collect()
            yield found.pop(due)
    finally:
        for worker in pool:
            worker.end()


def _gone(worker: Worker, doing: str) -> DyknowError:
    code = worker.process.wait()
    how = f"by signal {-code}" if code < 0 else f"with code {code}"
    return DyknowError(
        f"A process that {doing} ended {how}.", hint="Was memory short? Run it again; nothing was written."
    )


def serve(begin: Callable[[Any], Work]) -> None:
    """Work on tasks until no more come: what a worker process runs."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    source, target = sys.stdin.buffer, sys.stdout.buffer
    _widen(target.fileno())
    setup = _receive(source)
    if setup is None:
        return
    work = begin(setup.header)
    try:
        while (task := _receive(source)) is not None:
            _send(target, work(task))
            target.flush()
    except BrokenPipeError:
        os._exit(1)  # the caller has been killed; an ordinary end would want to write to it once more


def _send(stream: IO[bytes], message: Message) -> None:
    packed = orjson.dumps(message.header)
    for part in (_FRAME.pack(len(packed), len(message.body)) + packed, message.body):
        rest = memoryview(part)
        while rest:
            rest = rest[stream.write(rest) :]


def _receive(stream: IO[bytes]) -> Message | None:
    """Return the next message; None: the other end is gone, perhaps within one."""
    frame = _exactly(stream, _FRAME.size)
    if frame is None:
        return None
    sizes = _FRAME.unpack(frame)
    header, body = (_exactly(stream, size) for size in sizes)
    return None if header is None or body is None else Message(orjson.loads(header), body)


def _exactly(stream: IO[bytes], size: int) -> bytes | None:
    if isinstance(stream, io.BufferedReader):
        whole = stream.read(size)
        return whole if len(whole) == size else None
    buffer, done = bytearray(size), 0
    view = memoryview(buffer)
    while done < size:
        count = stream.readinto(view[done:])  # type: ignore[attr-defined]
        if not count:
            return None
        done += count
    return bytes(buffer)


def _widen(pipe: int) -> None:
    """Let a pipe hold a megabyte where the system can: fewer turns between the processes."""
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with suppress(OSError):
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, 1 << 20)
