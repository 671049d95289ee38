"""Blocks of a dump, read by several processes side by side."""

import gc
from collections import deque
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from kg import processes
from kg.errors import DataError
from kg.processes import Message, Work
from kg.sources.dumplines import Found, Scanner, Wanted
from kg.sources.dumptext import Block


def spread(path: Path, wanted: Wanted, workers: int, blocks: Iterator[Block]) -> Generator[tuple[Block, Found]]:
    """Yield what the blocks hold, in their order, read by several processes."""
    setup = {
        "name": str(path),
        "properties": sorted(wanted.properties),
        "subjects": None if wanted.subjects is None else sorted(wanted.subjects),
        "extra": sorted(wanted.extra),
    }
    given: deque[Block] = deque()

    def tasks() -> Iterator[Message]:
        for block in blocks:
            given.append(block._replace(lines=None))
            yield Message((block.start, block.end, block.lines is None), block.lines or b"")

    with closing(processes.spread(__name__, setup, tasks(), workers, f"read {path}")) as answers:
        for answer in answers:
            yield given.popleft(), _answered(answer)


def _answered(answer: Message) -> Found:
    if isinstance(answer.header, Mapping):
        raise DataError(answer.header["message"], hint=answer.header["hint"])
    return Found(answer.body, *answer.header)


def begin(setup: Mapping[str, Any]) -> Work:
    """Return what reads a block: what a worker process runs."""
    subjects, properties = setup["subjects"], frozenset(setup["properties"])
    wanted = Wanted(properties, None if subjects is None else frozenset(subjects), frozenset(setup["extra"]))
    scanner = Scanner(wanted, setup["name"])
    gc.disable()

    def read(task: Message) -> Message:
        start, end, plain = task.header
        try:
            kept, *rest = scanner.work(Block(start, end, None if plain else task.body, 0))
        except DataError as error:
            return Message({"message": error.message, "hint": error.hint}, b"")
        return Message(rest, kept)

    return read
