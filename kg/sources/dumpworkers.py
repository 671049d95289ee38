"""Processes that read blocks of a dump side by side: both ends of the pipes."""

import fcntl
import gc
import io
import os
import queue
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

import orjson

from kg.errors import DataError, DyknowError
from kg.sources.dumplines import Found, Scanner, Wanted
from kg.sources.dumptext import Block

_AHEAD: Final = 4  # blocks handed out or waiting to be written, per worker

_FRAME: Final = struct.Struct("<IQ")


class Worker:
    """A process that reads blocks; a thread waits for its answers and hands them on."""

    def __init__(self, setup: Mapping[str, Any], answers: "queue.SimpleQueue[tuple[Worker, Answer | None]]") -> None:
        # A fresh interpreter, not a fork: threads of decompressors and of the caller would be torn.
        self.process = subprocess.Popen(
            (sys.executable, "-c", "from kg.sources import dumpworkers; dumpworkers.serve()"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            process_group=0,  # an interrupt from the keyboard is for the caller, who then ends this one
        )
        self.number = -1  # the block it reads
        self._answers = answers
        _widen(self._stdin.fileno())
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()
        self.send(setup, b"")

    @property
    def _stdin(self) -> IO[bytes]:
        assert self.process.stdin is not None
        return self.process.stdin

    def send(self, header: object, body: bytes) -> bool:
        """Hand something over; False: the process is gone."""
        try:
            _send(self._stdin, header, body)
        except BrokenPipeError:
            return False
        return True

    def _listen(self) -> None:
        assert self.process.stdout is not None
        with suppress(OSError, ValueError):  # closed under it when the reading is given up
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


class Answer(NamedTuple):
    """What a process says of one block."""

    header: Any
    body: bytes


def spread(path: Path, wanted: Wanted, workers: int, blocks: Iterator[Block]) -> Generator[tuple[Block, Found]]:
    """Yield what the blocks hold, in their order, read by several processes."""
    setup = {
        "name": str(path),
        "properties": sorted(wanted.properties),
        "subjects": None if wanted.subjects is None else sorted(wanted.subjects),
        "extra": sorted(wanted.extra),
    }
    answers: queue.SimpleQueue[tuple[Worker, Answer | None]] = queue.SimpleQueue()
    pool: list[Worker] = []
    given: dict[int, Block] = {}
    found: dict[int, Answer] = {}
    due = 0
    try:
        pool.extend(Worker(setup, answers) for _ in range(workers))
        idle = list(pool)

        def collect() -> None:
            worker, answer = answers.get()
            if answer is None:
                raise _gone(worker, path)
            found[worker.number] = answer
            idle.append(worker)

        for number, block in enumerate(blocks):
            while not idle or number - due >= _AHEAD * workers:
                collect()
                while due in found:
                    yield given.pop(due), _answered(found.pop(due))
                    due += 1
            worker = idle.pop()
            worker.number, given[number] = number, block._replace(lines=None)
            if not worker.send((block.start, block.end, block.lines is None), block.lines or b""):
                raise _gone(worker, path)
        while given:
            while due not in found:
                collect()
            yield given.pop(due), _answered(found.pop(due))
            due += 1
    finally:
        for worker in pool:
            worker.end()


def _answered(answer: Answer) -> Found:
    if isinstance(answer.header, Mapping):
        raise DataError(answer.header["message"], hint=answer.header["hint"])
    return Found(answer.body, *answer.header)


def _gone(worker: Worker, path: Path) -> DyknowError:
    code = worker.process.wait()
    how = f"by signal {-code}" if code < 0 else f"with code {code}"
    return DyknowError(
        f"A process that read {path} ended {how}.", hint="Was memory short? Run it again; nothing was written."
    )


def serve() -> None:
    """Read blocks until no more come: what a worker process runs."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    source, target = sys.stdin.buffer, sys.stdout.buffer
    _widen(target.fileno())
    setup = _receive(source)
    if setup is None:
        return
    subjects, sets = setup.header["subjects"], (frozenset(setup.header[key]) for key in ("properties", "extra"))
    properties, extra = sets
    wanted = Wanted(properties, None if subjects is None else frozenset(subjects), extra)
    scanner = Scanner(wanted, setup.header["name"])
    gc.disable()
    while (order := _receive(source)) is not None:
        start, end, plain = order.header
        try:
            kept, *rest = scanner.work(Block(start, end, None if plain else order.body, 0))
        except DataError as error:
            _send(target, {"message": error.message, "hint": error.hint}, b"")
        else:
            _send(target, rest, kept)
        target.flush()


def _send(stream: IO[bytes], header: object, body: bytes) -> None:
    packed = orjson.dumps(header)
    for part in (_FRAME.pack(len(packed), len(body)) + packed, body):
        rest = memoryview(part)
        while rest:
            rest = rest[stream.write(rest) :]


def _receive(stream: IO[bytes]) -> Answer | None:
    """Return the next message; None: the other end is gone, perhaps within one."""
    frame = _exactly(stream, _FRAME.size)
    if frame is None:
        return None
    sizes = _FRAME.unpack(frame)
    header, body = (_exactly(stream, size) for size in sizes)
    return None if header is None or body is None else Answer(orjson.loads(header), body)


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
