"""Questions for servers that all have the same model: every server is kept busy, and none is asked what is answered.

The servers take questions from one queue, each as many at a time as it has slots. An answer that is none sends its
question back to the queue, after a pause that grows. A server that asks to wait, cannot be reached, or fails many times
in a row rests; then it gets one question, and all its slots go on once that is answered. When every server has rested
longer than our patience since it last answered, the run of questions ends in a `ModelError`; what was answered before
has been yielded.

The requests run in a thread of their own, so that the caller needs no event loop and may be inside one.
"""

import asyncio
import contextlib
import queue
import random
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from dyknow.benchmark import Question
from dyknow.models.base import Answer, Asked
from kg.errors import ModelError

Sleep = Callable[[float], Awaitable[object]]

Trouble = Literal["wrong", "lost", "unreached", "busy", "vain", "out"]
"""What a fault asks for.

"wrong", "lost": ask again, here or elsewhere, a limited number of times; an answer that is none, or none at all.
"unreached": the server takes no connection; no fault of the question.
"busy": the server asks to wait.
"vain": this question gets no answer however often it is asked.
"out": this server is of no use to this run.
"""


class Fault(Exception):
    """Why there is no answer.

    Attributes:
        what: Follows the server's address in a sentence: "answered HTTP 500".
        kind: What to do about it.
        after: The seconds the server asks to wait.
        hint: The next step for a person, where it is known.
        parameter: The parameter of the request that the server does not take.
    """

    def __init__(
        self,
        what: str,
        kind: Trouble = "wrong",
        *,
        after: float | None = None,
        hint: str | None = None,
        parameter: str | None = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.kind = kind
        self.after = after
        self.hint = hint
        self.parameter = parameter


@dataclass(frozen=True, slots=True)
class Patience:
    """How long we try.

    Attributes:
        attempts: How often one question is sent before its answer is an error.
        first_s: About the first pause; each next one is twice as long.
        longest_s: The longest pause of our own; a server may ask for more.
        total_s: The longest a server rests in all since it last answered, before it is given up.
        sleep: Waits so many seconds.
        chance: Numbers from 0 to 1 that spread the pauses.
    """

    attempts: int = 6
    first_s: float = 0.5
    longest_s: float = 60.0
    total_s: float = 300.0
    sleep: Sleep = asyncio.sleep
    chance: Callable[[], float] = random.random

    def pause(self, tries: int) -> float:
        """Return the seconds to wait after so many failures in a row."""
        return float(min(self.longest_s, self.first_s * 2.0 ** (tries - 1)) * (0.5 + self.chance() / 2))


class Connection(Protocol):
    """A server one can ask."""

    @property
    def address(self) -> str:
        """The server's address, as it may be shown."""
        ...

    @property
    def proven(self) -> bool:
        """Whether it has answered before; one that has not gets a single question first."""
        ...

    async def ask(self, question: Question) -> Answer:
        """Return the answer.

        Raises:
            Fault: there is none.
        """
        ...

    def no_answer(self, question: Question, error: str) -> Answer:
        """Return the answer that says why there is none."""
        ...

    async def open(self) -> None:
        """Make ready, inside the event loop that asks."""
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...


@dataclass(eq=False)
class _Item:
    question: Question
    tries: int = 0


@dataclass(eq=False)
class _Server:
    connection: Connection
    trial: bool  # one question at a time until it answers
    streak: int = 0  # faults in a row
    rests: int = 0  # in a row
    waited: float = 0.0  # seconds rested since the last answer
    out: Fault | None = None
    seen: Fault | None = None  # the last fault
    open: asyncio.Event = field(default_factory=asyncio.Event)  # it does not rest
    well: asyncio.Event = field(default_factory=asyncio.Event)  # it is not on trial

    def recover(self) -> None:
        """Note that it answered."""
        self.streak, self.rests, self.waited, self.trial = 0, 0, 0.0, False
        self.well.set()


class Fleet:
    """The servers of one call, each with so many slots.

    Args:
        connections: The servers.
        slots: How many questions each has at a time.
        patience: How long we try.
        who: Begins every message: "openai gpt-4o".
    """

    def __init__(self, connections: Sequence[Connection], slots: int, patience: Patience, who: str) -> None:
        self._connections = connections
        self._slots = slots
        self._patience = patience
        self._who = who
        # So many in a row, and a server is taken for ill: more than one bad question brings about.
        self._most_faults = max(patience.attempts + 1, 2 * slots)
        self._arrived: queue.SimpleQueue[Asked | None] = queue.SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._failure: BaseException | None = None
        self._open = True  # until the thread has put its last
        self._stopping = False

    def answers(self, questions: Sequence[Question], batch_size: int) -> Iterator[list[Asked]]:
        """Yield answers as they come, at most so many at once.

        Raises:
            ModelError: no server is left; what was answered has been yielded.
        """
        thread = threading.Thread(target=self._run, args=(questions,), name="dyknow-requests", daemon=True)
        thread.start()
        try:
            while batch := self._batch(batch_size):
                yield batch
                self._call(self._taken, len(batch))
        finally:
            self._stopping = True
            self._call(self._stop)
            thread.join()
        if self._failure is not None:
            raise self._failure

    def _batch(self, size: int) -> list[Asked]:
        """Wait for an answer and return it with those that have come too; empty where there are no more."""
        batch: list[Asked] = []
        with contextlib.suppress(queue.Empty):
            while self._open and len(batch) < size:
                arrived = self._arrived.get(block=not batch)
                if arrived is None:
                    self._open = False
                else:
                    batch.append(arrived)
        return batch

    # In the thread

    def _run(self, questions: Sequence[Question]) -> None:
        try:
            asyncio.run(self._main(questions))
        except BaseException as error:  # noqa: BLE001 -- raised again where the answers are read
            self._failure = error
        finally:
            self._arrived.put(None)

    async def _main(self, questions: Sequence[Question]) -> None:
        self._done = asyncio.Event()
        self._left = len(questions)
        self._queue: asyncio.Queue[_Item] = asyncio.Queue()
        for question in questions:
            self._queue.put_nowait(_Item(question))
        # Answers that wait to be read count, too: a reader that stops must not leave a heap of paid answers unread.
        self._room = asyncio.Semaphore(2 * self._slots * len(self._connections))
        self._tasks: set[asyncio.Task[None]] = set()
        async with AsyncExitStack() as stack:
            for connection in self._connections:
                await connection.open()
                stack.push_async_callback(connection.close)
            self._servers = [_Server(connection, not connection.proven) for connection in self._connections]
            for server in self._servers:
                server.open.set()
                for slot in range(self._slots):
                    self._spawn(self._work(server, is_first=slot == 0))
            self._loop = asyncio.get_running_loop()
            if self._stopping:
                self._done.set()
            try:
                await self._done.wait()
            finally:
                self._loop = None
                for task in self._tasks:
                    task.cancel()
                await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._failure is not None:
            raise self._failure

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self._failure = self._failure or error
        self._done.set()

    def _call(self, function: Callable[..., object], *arguments: object) -> None:
        loop = self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # it has just closed: there is nothing left to tell it
                loop.call_soon_threadsafe(function, *arguments)

    def _taken(self, count: int) -> None:
        for _ in range(count):
            self._room.release()

    def _stop(self) -> None:
        self._done.set()

    async def _work(self, server: _Server, *, is_first: bool) -> None:
        while server.out is None:
            await server.open.wait()
            if server.trial and not is_first:
                await server.well.wait()
            await self._room.acquire()
            item = await self._queue.get()
            if not server.open.is_set() or (server.trial and not is_first) or server.out is not None:
                # It fell ill while this slot waited for a question.
                self._queue.put_nowait(item)
                self._room.release()
                continue
            on_trial = server.trial
            try:
                answer = await server.connection.ask(item.question)
            except Fault as fault:
                if not self._faulty(server, item, fault, on_trial=on_trial):
                    self._room.release()
            else:
                server.recover()
                self._settle(item, answer)

    def _settle(self, item: _Item, answer: Answer) -> None:
        self._left -= 1
        self._arrived.put(Asked(item.question, answer))
        if not self._left:
            self._done.set()

    def _faulty(self, server: _Server, item: _Item, fault: Fault, *, on_trial: bool) -> bool:
        """Do what a fault asks for, and say whether the question is through: its answer is an error."""
        server.seen = fault
        pause = 0.0
        if fault.kind == "vain":
            server.recover()  # it understood, and said no
        elif fault.kind == "out":
            server.out = fault
        elif fault.kind == "busy":
            self._rest(server, fault.after)
        else:
            server.streak += 1
            if fault.kind == "unreached" or on_trial or server.streak >= self._most_faults:
                self._rest(server, fault.after)
            if fault.kind != "unreached":
                item.tries += 1
                pause = self._patience.pause(item.tries)
        is_through = fault.kind == "vain" or item.tries >= self._patience.attempts
        if is_through:
            error = f"{self._who} at {server.connection.address} {fault.what}"
            self._settle(item, server.connection.no_answer(item.question, error))
        else:
            self._again(item, pause)
        self._give_up()
        return is_through

    def _again(self, item: _Item, pause: float) -> None:
        async def later() -> None:
            await self._patience.sleep(pause)
            self._queue.put_nowait(item)

        if pause:
            self._spawn(later())
        else:
            self._queue.put_nowait(item)

    def _rest(self, server: _Server, after: float | None) -> None:
        """Give a server nothing for a while, then one question."""
        if not server.open.is_set():
            return
        server.rests += 1
        pause = max(self._patience.pause(server.rests), after or 0.0)
        server.waited += pause
        server.trial = True
        server.well.clear()
        server.open.clear()

        async def wake() -> None:
            await self._patience.sleep(pause)
            server.open.set()

        self._spawn(wake())

    def _give_up(self) -> None:
        """End it all where no server is left."""
        if not all(server.out or server.waited > self._patience.total_s for server in self._servers):
            return
        seen = [(server.connection.address, server.out or server.seen) for server in self._servers]
        told = "; ".join(f"{address} {fault.what}" for address, fault in seen if fault)
        hints = [fault.hint for _, fault in seen if fault and fault.hint]
        hint = hints[0] if hints else "What was answered is kept: the same command asks the rest."
        self._fail(ModelError(f"{self._who}: no server is left: {told}.", hint=hint))
