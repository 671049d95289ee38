"""Servers that fail, and many of them: every question is answered once, by one that can."""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence

import pytest

from dyknow.models.base import Asked
from dyknow.models.fleet import Patience
from kg.errors import ModelError
from tests.model_server import GREETING, Fault, ModelServer
from tests.test_api import QUESTIONS, QUICK, ask, remote

pytest.importorskip("openai")
pytest.importorskip("anthropic")


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


# --- faults


def answered_once(got: Sequence[Asked], *servers: ModelServer) -> None:
    """Check that every question has one answer, and none was sent on after a server had answered it."""
    assert Counter(item.question.id for item in got) == Counter(question.id for question in QUESTIONS)
    assert [item.answer.error for item in got if item.answer.error] == []
    for _ in range(1000):
        answered = Counter(prompt for server in servers for prompt in server.answered if prompt != GREETING)
        if answered.total() >= len(QUESTIONS):
            break
        time.sleep(0.001)  # a server notes an answer just after it is sent
    assert set(answered.values()) == {1}
    assert len(answered) == len(QUESTIONS)


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
@pytest.mark.parametrize(
    "fault",
    [
        Fault("drop", every=5),
        Fault("429", every=5, retry_after="0.01"),
        Fault("500", every=4),
        Fault("503", every=6),
        Fault("529", every=6),
        Fault("html", every=4),
        Fault("cut off", every=4),
        Fault("half json", every=4),
        Fault("error in 200", every=4),
        Fault("no choice", every=4),
        Fault("drop", every=1, after=5, last=20),  # away for a while
    ],
    ids=str,
)
def test_every_question_is_answered_once_whatever_goes_wrong(kind: str, fault: Fault) -> None:
    with ModelServer(faults=[fault]) as server:
        got = ask(remote(server, kind=kind))
        assert len(server.prompts) > len(QUESTIONS)
        answered_once(got, server)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("html", "answered with a page of HTML instead of JSON"),
        ("half json", "answered with malformed or cut-off JSON"),
        ("cut off", "broke the connection off"),
        ("drop", "broke the connection off"),
        ("500", "answered HTTP 500: Something"),
        ("400", "answered HTTP 400: This prompt is too long"),
        ("no choice", "answered without an answer in it"),
    ],
)
def test_what_never_goes_right_is_that_questions_error(kind: str, words: str) -> None:
    bad = QUESTIONS[3].text
    with ModelServer(faults=[Fault(kind, only=bad)]) as server:
        got = ask(remote(server, concurrency=1), QUESTIONS[:8])
        errors = [item for item in got if item.answer.error]
        assert [item.question.text for item in errors] == [bad]
        answer = errors[0].answer
        assert answer.text is None
        assert f"openai m at {server.url}/v1 {words}" in str(answer.error)
        assert answer.server == f"{server.url}/v1"
        assert server.prompts.count(bad) == (1 if kind == "400" else QUICK.attempts)
        assert len(got) == 8


def test_two_bad_questions_at_the_end_are_errors_of_theirs() -> None:
    with ModelServer(faults=[Fault("drop")]) as server:
        got = ask(remote(server, style="instruct", template="Q: {question}"), QUESTIONS[:2])
        assert [item.answer.text for item in got] == [None, None]
        assert {item.answer.prompt for item in got} == set(server.prompts)
        assert len(server.prompts) == 2 * QUICK.attempts


def test_a_request_has_a_deadline() -> None:
    with ModelServer(faults=[Fault("slow", only=QUESTIONS[0].text)]) as server:
        patience = Patience(attempts=2, first_s=0.01, chance=lambda: 1.0)
        got = ask(remote(server, patience=patience, deadline_s=1.5), QUESTIONS[:3])
        assert [item.answer.error is None for item in sorted(got, key=lambda item: item.question.id)].count(False) == 1
        assert any("gave no answer within 1.5 s" in str(item.answer.error) for item in got)


def test_a_server_that_asks_to_wait_is_obeyed() -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        await asyncio.sleep(0)

    with ModelServer(faults=[Fault("429", every=10, retry_after="7")]) as server:
        answered_once(ask(remote(server, patience=Patience(sleep=sleep, chance=lambda: 1.0))), server)
        assert slept
        assert set(slept) == {7.0}


def test_a_server_that_asks_for_too_long_ends_it() -> None:
    with (
        ModelServer(faults=[Fault("429", after=3, retry_after="3600")]) as server,
        pytest.raises(ModelError, match=r"no server is left: .* answered HTTP 429"),
    ):
        ask(remote(server))


def test_an_empty_account_ends_it_at_once() -> None:
    with ModelServer(faults=[Fault("quota", after=3)]) as server:
        got: list[Asked] = []
        with pytest.raises(ModelError, match="exceeded your current quota"):
            got += (item for batch in remote(server, concurrency=1).generate(QUESTIONS, 8) for item in batch)
        assert len(server.prompts) == 4


def test_a_redirect_is_not_followed() -> None:
    with (
        ModelServer(faults=[Fault("redirect", after=2)]) as server,
        pytest.raises(ModelError, match=r"redirects to elsewhere\.invalid"),
    ):
        ask(remote(server))


# --- many servers


def test_requests_are_in_flight_together() -> None:
    with ModelServer(seconds=0.1) as server:
        answered_once(ask(remote(server, concurrency=10)), server)
        assert server.busiest == 10


def test_answers_are_yielded_as_they_come() -> None:
    with ModelServer(seconds=0.05) as server:
        for number, _ in enumerate(remote(server, concurrency=2).generate(QUESTIONS, 1)):
            if number == 3:
                break
        time.sleep(0.2)
        assert len(server.prompts) <= 10, "nothing is asked on when nobody reads the answers"


def test_both_servers_are_kept_busy() -> None:
    with ModelServer(seconds=0.02) as one, ModelServer(seconds=0.02) as two:
        got = ask(remote(one, two, concurrency=2))
        answered_once(got, one, two)
        assert min(len(one.prompts), len(two.prompts)) >= 8
        assert {item.answer.server for item in got} == {f"{one.url}/v1", f"{two.url}/v1"}


def test_a_server_that_dies_loses_nothing() -> None:
    with ModelServer(seconds=0.02, dies_after=7) as one, ModelServer(seconds=0.02) as two:
        got = ask(remote(one, two))
        answered_once(got, one, two)
        assert one.dead.is_set()
        assert 0 < len(one.answered) - 1 <= 7


def test_a_server_that_dies_comes_back() -> None:
    with ModelServer(seconds=0.02, dies_after=5) as one, ModelServer(seconds=0.06) as two:
        got: list[Asked] = []
        for batch in remote(one, two, concurrency=2).generate(QUESTIONS, 1):
            got += batch
            if one.dead.is_set() and one.dies_after is not None:
                one.die()
                one.rise()
                risen, two.seconds = len(one.answered), 1.0  # so that much is left when the first is found again
        answered_once(got, one, two)
        assert len(one.answered) > risen


def test_a_server_that_is_dead_at_the_start_joins_later() -> None:
    with ModelServer(seconds=0.02) as one, ModelServer(seconds=0.05) as two:
        one.die()
        model = remote(one, two, concurrency=2)
        assert model.info()["reported"] == "m"
        got: list[Asked] = []
        for batch in model.generate(QUESTIONS, 1):
            got += batch
            if len(got) == 3:
                one.rise()
                two.seconds = 1.0  # as above
        answered_once(got, one, two)
        assert len(one.answered) > 3


def test_a_server_with_another_model_is_left_out() -> None:
    with ModelServer(model="a") as one, ModelServer(model="b") as two:
        with pytest.raises(ModelError, match=r"has b, .* has a"):
            remote(one, two).info()
        two.die()
        model = remote(one, two)
        model.info()
        two.rise()
        got = ask(model)
        assert {item.answer.model for item in got} == {"a"}


def test_a_model_that_changes_on_the_way_ends_it() -> None:
    with ModelServer({QUESTIONS[9].text: {"text": "x", "model": "m-new"}, "*": "y"}) as server:
        with pytest.raises(ModelError, match="answers as m-new, and before as m") as caught:
            ask(remote(server))
        assert "dated name" in str(caught.value.hint)


def test_servers_of_one_name_and_two_folders_are_two_models() -> None:
    listed = [{"id": "m", "root": "/models/a", "created": 1}]
    with ModelServer(models=listed) as one, ModelServer(models=[{"id": "m", "root": "/models/b"}]) as two:
        assert remote(one).info()["root"] == "/models/a"
        with pytest.raises(ModelError, match="/models/b"):
            remote(one, two).info()


def test_when_all_are_dead_what_was_answered_is_there() -> None:
    with ModelServer(dies_after=6) as one, ModelServer(dies_after=6) as two:
        got: list[Asked] = []
        patience = Patience(first_s=0.005, longest_s=0.02, total_s=0.2, chance=lambda: 1.0)
        with pytest.raises(ModelError, match=f"no server is left: {one.url}/v1 cannot be reached; {two.url}") as caught:
            for batch in remote(one, two, patience=patience).generate(QUESTIONS, 4):
                got += batch
        assert "the same command asks the rest" in str(caught.value.hint)
        done = [prompt for server in (one, two) for prompt in server.answered if prompt != GREETING]
        assert sorted(item.question.text for item in got) == sorted(done)


def test_it_works_inside_an_event_loop() -> None:
    async def notebook(server: ModelServer) -> int:
        return len(ask(remote(server), QUESTIONS[:3]))

    with ModelServer() as server:
        assert asyncio.run(notebook(server)) == 3


def test_nobody_there_is_said_at_once() -> None:
    with ModelServer() as server:
        address = f"{server.url}/v1"
    with pytest.raises(ModelError, match=f"openai m: {address} cannot be reached"):
        remote(address).info()


def test_a_model_that_the_server_lacks_is_said() -> None:
    with ModelServer(models=[{"id": "mm"}]) as server:
        with pytest.raises(ModelError, match="answered HTTP 404: The model `m` does not exist") as caught:
            remote(server).info()
        assert caught.value.hint == "Did you mean 'mm'?"
