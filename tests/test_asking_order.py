"""The order in which servers are asked, and many questions at once."""

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from dyknow import benchmark
from dyknow.benchmark import Question
from dyknow.models.api import Remote
from dyknow.models.base import Answer, Options
from dyknow.models.dialects import DIALECTS
from dyknow.models.fleet import Fleet, Patience
from dyknow.models.scripted import Script, Scripted
from dyknow.run import run_model
from tests.model_server import ModelServer
from tests.test_run import ticking

STUDY = benchmark.load()


def shared(texts: Sequence[str]) -> int:
    """Return how many characters each text shares with the one before, in all."""
    return sum(next((at for at in range(len(a)) if not b.startswith(a[: at + 1])), len(a)) for a, b in pairwise(texts))


@pytest.mark.parametrize("template", [None, "You are brief. Q: {question}"])
def test_prompts_that_begin_alike_are_asked_one_after_the_other(template: str | None) -> None:
    pytest.importorskip("openai")
    questions = STUDY.questions()
    with ModelServer() as server:
        url = f"{server.url}/v1"
        options = Options(
            base_urls=(url,), style="instruct" if template else "completion", template=template, concurrency=1
        )
        model = Remote(DIALECTS["openai"], "m", options)
        got = [item for batch in model.generate(questions, 8) for item in batch]
        asked = server.prompts
    assert sorted(item.question.id for item in got) == sorted(one.id for one in questions)
    assert asked == sorted(asked)
    head = len((template or "").removesuffix("{question}"))
    assert shared([text[head:] for text in asked]) > 2 * shared([one.text for one in questions])


def test_a_run_of_questions_asked_in_another_order_asks_the_rest(tmp_path: Path) -> None:
    class Alphabetical(Scripted):
        def generate(self, questions: Sequence[Question], batch_size: int, sample: int = 0):  # type: ignore[no-untyped-def] # noqa: ANN202
            heard.extend(one.id for one in questions)
            return super().generate(sorted(questions, key=lambda one: one.text), batch_size, sample)

    heard: list[str] = []
    questions, script = STUDY.questions()[:10], Script({"*": "Nobody"}, {})
    done = run_model(Scripted(script), questions, tmp_path, benchmark=STUDY, clock=ticking(), batch_size=3)
    file = done.path / "responses.jsonl"
    kept = file.read_bytes().splitlines(keepends=True)[:4]
    file.write_bytes(b"".join(kept))
    again = run_model(Alphabetical(script), questions, tmp_path, benchmark=STUDY, clock=ticking(), batch_size=3)
    assert (again.id, heard) == (done.id, [one.id for one in questions[4:]])
    assert file.read_bytes().startswith(b"".join(kept))


class Instant:
    """A server that answers at once."""

    proven = True

    def __init__(self, address: str) -> None:
        self.address = address
        self.heard: list[str] = []

    async def ask(self, question: Question) -> Answer:
        self.heard.append(question.id)
        await asyncio.sleep(0)
        return Answer("x", "stop", question.text, 9, 1)

    def no_answer(self, question: Question, error: str) -> Answer:
        raise AssertionError(question.id, error)

    async def open(self) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing."""


def test_thousands_of_questions_keep_their_order_and_every_server_busy() -> None:
    questions = STUDY.questions() * 10
    servers = [Instant(str(number)) for number in range(4)]
    fleet = Fleet(servers, 4, Patience(), "m")
    assert sum(map(len, fleet.answers(questions, 32))) == len(questions)
    assert sum(len(one.heard) for one in servers) == len(questions)
    assert min(len(one.heard) for one in servers) > len(questions) / 8
    place = {one.id: at for at, one in enumerate(STUDY.questions())}
    for one in servers:  # what one server is asked is in order, but for the ten rounds
        falls = sum(place[b] < place[a] for a, b in pairwise(one.heard))
        assert falls <= 9 + 4 * 16
