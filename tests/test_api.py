"""Models behind servers, asked over real HTTP on loopback."""

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest

from dyknow import benchmark
from dyknow.journal import responses
from dyknow.models import load_model
from dyknow.models.api import Remote, load_anthropic, load_openai
from dyknow.models.base import Answer, Asked, Options
from dyknow.models.dialects import DIALECTS
from dyknow.models.fleet import Patience
from dyknow.models.prices import TEMPLATE, Price, cost, load_prices
from dyknow.models.wire import Key, address_of, key_for, split_thoughts
from dyknow.run import run_model
from kg.errors import DataError, ModelError, UsageError
from tests.model_server import GREETING, Fault, ModelServer

pytest.importorskip("openai")
pytest.importorskip("anthropic")

REPO = Path(__file__).resolve().parents[1]
STUDY = benchmark.load()
QUESTIONS = STUDY.questions()[:30]
SECRET = "sk-test-0123456789abcdef"
QUICK = Patience(first_s=0.005, longest_s=0.02, total_s=2.0, chance=lambda: 1.0)


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def remote(*servers: ModelServer | str, kind: str = "openai", patience: Patience = QUICK, **options: Any) -> Remote:  # noqa: ANN401
    urls = tuple(f"{one.url}/v1" if isinstance(one, ModelServer) else one for one in servers)
    return Remote(DIALECTS[kind], "m", Options(base_urls=urls, **{"deadline_s": 10.0} | options), patience)


def ask(model: Remote, questions: Sequence[benchmark.Question] = QUESTIONS, sample: int = 0) -> list[Asked]:
    return [item for batch in model.generate(questions, 8, sample) for item in batch]


def first(model: Remote) -> Answer:
    return ask(model, QUESTIONS[:1])[0].answer


# --- what an answer says


def test_a_chat_is_asked_and_read() -> None:
    with ModelServer(model="m-2024-08-06") as server:
        model = remote(server)
        answer = first(model)
        assert answer.seconds is not None
        assert answer._replace(seconds=None) == Answer(
            "Sergio Mattarella", "stop", QUESTIONS[0].text, len(QUESTIONS[0].text.split()), 2,
            logprob=-1.0, server=f"{server.url}/v1", model="m-2024-08-06",
        )  # fmt: skip
        sent = server.requests[-1].body
        assert sent["messages"] == [{"role": "user", "content": QUESTIONS[0].text}]
        assert (sent["temperature"], sent["max_tokens"], "seed" in sent, "stop" in sent) == (0.0, 48, False, False)
        info = model.info()
        assert (info["name"], info["kind"], info["reported"], info["style"]) == ("m", "openai", "m-2024-08-06", "chat")
        assert info["sampling"]["method"] == "greedy"
        assert server.url not in json.dumps(info)


def test_a_completion_ends_at_the_first_newline_after_text() -> None:
    with ModelServer({"*": "\n\n Sergio Mattarella\nThe capital"}) as server:
        answer = first(remote(server, style="completion"))
        assert (answer.text, answer.finish_reason) == ("Sergio Mattarella", "stop")
        assert answer.raw == "\n\n Sergio Mattarella\nThe capital"
        assert server.requests[-1].path == "/v1/completions"
        assert server.requests[-1].body["prompt"] == QUESTIONS[0].text
        assert "stop" not in server.requests[-1].body, "as a stop, a newline would empty this answer"


def test_an_instruct_template_is_a_completion() -> None:
    with ModelServer({"*": "Sergio\nMattarella"}) as server:
        answer = first(remote(server, style="instruct", template="Q: {question}\nA:"))
        assert answer.text == "Sergio\nMattarella"
        assert answer.prompt == server.prompts[0] == f"Q: {QUESTIONS[0].text}\nA:"


def test_anthropic_is_asked_and_read() -> None:
    with ModelServer(model="claude-x-20240101") as server:
        model = remote(server, kind="anthropic")
        answer = first(model)
        assert (answer.text, answer.finish_reason, answer.tokens) == ("Sergio Mattarella", "stop", 2)
        assert answer.prompt_tokens == len(QUESTIONS[0].text.split())
        assert server.requests[-1].path == "/v1/messages"
        assert server.requests[-1].body["temperature"] == 0.0
        assert model.info()["reported"] == "claude-x-20240101"


@pytest.mark.parametrize(
    ("kind", "said", "text", "raw"),
    [
        ("openai", {"text": "Meloni", "message": {"reasoning_content": "Hm."}}, "Meloni", "<think>Hm.</think>Meloni"),
        ("openai", {"text": "Meloni", "message": {"reasoning": "Hm."}}, "Meloni", "<think>Hm.</think>Meloni"),
        ("openai", "<think>Draghi?</think>\n\nMeloni", "Meloni", "<think>Draghi?</think>\n\nMeloni"),
        ("openai", "Draghi?</think>Meloni", "Meloni", "Draghi?</think>Meloni"),
        ("openai", "<think>Draghi? Or", "", "<think>Draghi? Or"),
        ("openai", {"message": {"content": None}, "reason": "length"}, "", None),
        (
            "openai",
            {"message": {"content": [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Meloni"}]}},
            "Meloni",
            "<think>Hm.</think>Meloni",
        ),
        (
            "anthropic",
            {"content": [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Meloni"}]},
            "Meloni",
            "<think>Hm.</think>Meloni",
        ),
    ],
)
def test_thoughts_are_kept_apart(kind: str, said: object, text: str, raw: str | None) -> None:
    with ModelServer({"*": said}) as server:
        answer = first(remote(server, kind=kind))
        assert (answer.text, answer.raw, answer.error) == (text, raw, None)
        assert raw is None or answer.logprob is None


def test_a_thought_split_off() -> None:
    assert split_thoughts("a <think> is a tag") == ("a <think> is a tag", False)


@pytest.mark.parametrize(
    ("kind", "said", "reason", "text"),
    [
        ("openai", {"text": "", "reason": "content_filter"}, "content_filter", ""),
        ("openai", {"message": {"content": None, "refusal": "I can't."}}, "stop", "I can't."),
        ("anthropic", {"content": [], "reason": "refusal"}, "refusal", ""),
    ],
)
def test_a_refusal_is_an_answer(kind: str, said: object, reason: str, text: str) -> None:
    with ModelServer({"*": said}) as server:
        answer = first(remote(server, kind=kind))
        assert (answer.refused, answer.finish_reason, answer.text, answer.error) == (True, reason, text, None)
        assert len(server.prompts) == 1


def test_a_filtered_prompt_is_a_refusal() -> None:
    with ModelServer(faults=[Fault("content filter")]) as server:
        answer = first(remote(server))
        assert (answer.refused, answer.text, answer.error, answer.finish_reason) == (True, "", None, "content_filter")


def test_stops_are_sent_and_cut_here_too() -> None:
    with ModelServer({"*": "\nSergio Mattarella. He"}) as server:
        answer = first(remote(server, stop=(".", "\n")))
        assert (answer.text, answer.logprob) == ("Sergio Mattarella", -1.0)
        assert server.requests[-1].body["stop"] == ["."]


def test_samples_draw_from_seeds_of_their_own() -> None:
    with ModelServer() as server:
        model = remote(server, temperature=0.7, seed=3)
        for sample in (0, 1, 0):
            ask(model, QUESTIONS[:3], sample)
        seeds = [one.body["seed"] for one in server.requests if one.prompt not in ("", GREETING)]
        assert set(seeds[:3]) == set(seeds[6:])
        assert len(set(seeds)) == 6
        assert all(0 <= seed < 2**31 for seed in seeds)
        assert model.info()["sampling"] | {"stop": 0} == {
            "method": "drawn", "temperature": 0.7, "top_p": None, "seed": 3, "max_new_tokens": 48, "stop": 0,
        }  # fmt: skip


# --- parameters that a server does not take


def test_the_newer_name_of_the_limit_is_found() -> None:
    words = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    with ModelServer(rejects={"max_tokens": words, "logprobs": "Unsupported: logprobs"}) as server:
        answer = first(remote(server))
        assert (answer.text, answer.logprob) == ("Sergio Mattarella", None)
        assert server.requests[-1].body["max_completion_tokens"] == 48
        assert len(server.prompts) == 1, "found out before the first question"


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_a_temperature_that_is_not_taken_is_said(kind: str) -> None:
    with ModelServer(rejects={"temperature": "`temperature` is not supported with this model."}) as server:
        with pytest.raises(ModelError, match="not supported") as caught:
            remote(server, kind=kind).info()
        assert "--temperature 1" in str(caught.value.hint)
        model = remote(server, kind=kind, temperature=1.0)
        assert first(model).text == "Sergio Mattarella"
        assert model.info()["sampling"]["temperature"] == 1.0


def test_a_seed_that_is_not_taken_is_recorded_so() -> None:
    with ModelServer(rejects={"seed": "Unknown parameter: seed"}) as server:
        assert remote(server, temperature=1.0, seed=7).info()["sampling"]["seed"] is None


def test_a_setting_of_local_models_is_refused() -> None:
    with pytest.raises(UsageError, match="dtype says nothing"):
        remote("http://127.0.0.1:1", dtype="float32")
    with pytest.raises(UsageError, match="no style completion"):
        remote("http://127.0.0.1:1", kind="anthropic", style="completion")
    with pytest.raises(UsageError, match="no template"):
        remote("http://127.0.0.1:1", style="instruct")
    with pytest.raises(UsageError, match="0 requests"):
        remote("http://127.0.0.1:1", concurrency=0)


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
        began = time.monotonic()
        got = ask(remote(server, patience=patience, deadline_s=0.7), QUESTIONS[:3])
        assert time.monotonic() - began < 4
        assert [item.answer.error is None for item in sorted(got, key=lambda item: item.question.id)].count(False) == 1
        assert any("gave no answer within 0.7 s" in str(item.answer.error) for item in got)


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
        began = time.monotonic()
        answered_once(ask(remote(server, concurrency=10)), server)
        assert time.monotonic() - began < 30 * 0.1 / 2
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
                risen = len(one.answered)
        answered_once(got, one, two)
        assert len(one.answered) > risen + 3


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


# --- keys


def test_a_key_appears_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("MY_KEY", SECRET)
    faults = [Fault("error in 200", every=3), Fault("400", only=QUESTIONS[4].text), Fault("500", every=5)]
    said = {"*": {"text": f"Your key is {SECRET}", "message": {"reasoning": SECRET}, "reason": SECRET}}
    with ModelServer(said, faults=faults, key=SECRET, model="m") as server:
        model = remote(server, api_key_env="MY_KEY")
        done = run_model(model, QUESTIONS[:8], tmp_path, benchmark=STUDY, clock=lambda: datetime.now(tz=UTC))
        assert server.requests[-1].headers["authorization"] == f"Bearer {SECRET}"
        written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"Your key is [key]" in written
    assert b"you are [key]" in written
    assert done.info["errors"] == 1
    shown = [written.decode(), caplog.text, *capfd.readouterr(), repr(model), json.dumps(model.info())]
    assert not [text for text in shown if SECRET in text]


def test_a_key_is_found_behind_escapes() -> None:
    key = Key(SECRET, "MY_KEY")
    assert key.parsed(rb'["your \u0073k-test-0123456789abcdef", "\u00e9"]') == ["your [key]", "é"]
    assert Key("none", None).parsed(b'["none"]') == ["none"], "what is no secret is not blotted out of answers"


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_a_wrong_key_is_said_without_it(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", SECRET)
    with ModelServer(key="another-key-altogether") as server:
        with pytest.raises(ModelError, match="HTTP 401: it refuses the key") as caught:
            remote(server, kind=kind, api_key_env="MY_KEY").info()
        assert caught.value.hint == "Look at MY_KEY."
        with pytest.raises(ModelError) as caught:
            remote(server, kind=kind).info()
        assert "--api-key-env" in str(caught.value.hint)


def test_the_usual_key_goes_to_its_maker_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("OPENAI_ORG_ID", "org-secret")
    with ModelServer() as server:
        first(remote(server))
        assert not [one for one in server.requests if SECRET in str(one.headers) or "org-secret" in str(one.headers)]
    maker = DIALECTS["openai"].maker
    assert key_for(maker, None, maker, "OPENAI_API_KEY").value == SECRET


def test_the_environments_proxy_is_not_used_without_encryption(monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelServer() as server, ModelServer() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("ALL_PROXY", proxy.url)
        assert first(remote(server)).error is None
        assert proxy.requests == []


def test_keys_that_cannot_be_used_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="OPENAI_API_KEY is not set"):
        load_openai("gpt-4o", Options())
    with pytest.raises(UsageError, match="ANTHROPIC_API_KEY is not set"):
        load_anthropic("claude", Options())
    monkeypatch.setenv("MY_KEY", SECRET)
    with pytest.raises(UsageError, match="unencrypted") as caught:
        remote("http://10.1.2.3:8000/v1", api_key_env="MY_KEY")
    assert SECRET not in str(caught.value)
    monkeypatch.setenv("MY_KEY", "EMPTY")
    remote("http://10.1.2.3:8000/v1", api_key_env="MY_KEY")
    monkeypatch.setenv("MY_KEY", "schlüssel-0123456789")
    with pytest.raises(UsageError, match="a sign that no key has"):
        remote("https://127.0.0.1:8000/v1", api_key_env="MY_KEY")


@pytest.mark.parametrize(
    "url", ["ftp://x", "127.0.0.1:8000", "http://user:pass@x/v1", "http://x/v1?key=abc", "http://x:port/v1", ""]
)
def test_an_address_is_no_more_than_that(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        address_of(url)
    assert "pass" not in caught.value.message
    assert "abc" not in caught.value.message


# --- runs


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_a_run_over_a_bad_server_has_every_answer(kind: str, tmp_path: Path) -> None:
    faults = [Fault("drop", every=5), Fault("429", every=7, retry_after="0.01"), Fault("html", every=11)]
    with ModelServer(faults=faults) as server:
        for _ in range(2):
            model = remote(server, kind=kind)
            done = run_model(model, QUESTIONS, tmp_path, benchmark=STUDY, clock=lambda: datetime.now(tz=UTC))
        assert done.state == "done"
        rows = responses(done.path)
        assert [row["status"] for row in rows] == ["ok"] * 30
        assert {row["server"] for row in rows} == {f"{server.url}/v1"}
        assert done.info["tokens"] == 60
        answered = [prompt for prompt in server.answered if prompt != GREETING]
        assert sorted(answered) == sorted(question.text for question in QUESTIONS), "the second time nothing is asked"


KILLED = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from dyknow import benchmark
from dyknow.models.api import Remote
from dyknow.models.base import Options
from dyknow.models.dialects import DIALECTS
from dyknow.models.fleet import Patience
from dyknow.run import run_model
study = benchmark.load()
model = Remote(DIALECTS["openai"], "m", Options(base_urls=(sys.argv[1],)), Patience(first_s=0.01, longest_s=0.05))
run_model(model, study.questions()[:60], Path(sys.argv[2]), benchmark=study, clock=lambda: datetime.now(tz=UTC),
          batch_size=4, run_id="killed")
"""


def stored(folder: Path) -> set[str]:
    file = folder / "killed" / "responses.jsonl"
    lines = file.read_bytes().split(b"\n")[:-1] if file.is_file() else []
    return {orjson.loads(line)["prompt"] for line in lines}


def test_killed_three_times_no_stored_answer_is_asked_again(tmp_path: Path) -> None:
    faults = [Fault("drop", every=5), Fault("429", every=9, retry_after="0.01"), Fault("cut off", every=13)]
    questions = [question.text for question in STUDY.questions()[:60]]
    command = [sys.executable, "-c", KILLED]
    with ModelServer(faults=faults, seconds=0.04) as server:
        for wanted in (8, 20, 35, None):
            before, count = stored(tmp_path), len(server.prompts)
            process = subprocess.Popen([*command, f"{server.url}/v1", str(tmp_path)], cwd=REPO, env=dict(os.environ))
            deadline = time.monotonic() + 30
            while wanted and len(stored(tmp_path)) < wanted and process.poll() is None:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            if wanted:
                process.send_signal(signal.SIGKILL)
            assert process.wait(30) == (-signal.SIGKILL if wanted else 0)
            assert not before & set(server.prompts[count:])
    rows = responses(tmp_path / "killed")
    assert sorted(row["prompt"] for row in rows) == sorted(questions)
    assert {row["status"] for row in rows} == {"ok"}
    info = json.loads((tmp_path / "killed" / "run.json").read_bytes())
    assert (info["tokens"], info["answered"], info["errors"], len(info["legs"])) == (120, 60, 0, 4)


def test_a_known_model_is_asked_as_it_is_known_to_be() -> None:
    with ModelServer() as server:
        model = load_model("vllm:openai-community/gpt2-xl", Options(base_urls=(f"{server.url}/v1",)))
        assert model.info()["style"] == "completion"
        model = load_model("vllm:openai-community/gpt2-xl", Options(base_urls=(f"{server.url}/v1",), style="chat"))
        assert model.info()["style"] == "chat"


def test_names_on_the_command_line() -> None:
    with ModelServer() as server:
        model = load_model("vllm:meta-llama/Llama-3.1-8B", Options(base_urls=(f"{server.url}/v1",)))
        assert (model.name, model.info()["kind"]) == ("meta-llama/Llama-3.1-8B", "openai")
        assert load_model("anthropic:claude-x", Options(base_urls=(server.url,))).info()["kind"] == "anthropic"


# --- prices


@pytest.fixture
def prices(tmp_path: Path) -> Iterator[Path]:
    file = tmp_path / "prices.toml"
    file.write_text(
        '["m"]\ninput = 2\noutput = 8.5\ncurrency = "EUR"\nsource = "https://example.org"\ndate = 2024-01-31\n'
    )
    yield file


def test_prices_are_the_users(prices: Path) -> None:
    found = load_prices(prices)
    assert found == {"m": Price(2.0, 8.5, "EUR", "https://example.org", date(2024, 1, 31))}
    reckoned = cost(found, (None, "m"), 1_000_000, 2_000_000)
    assert reckoned is not None
    assert reckoned.amount == 19.0
    assert load_prices(TEMPLATE) == {}, "none is shipped"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("input = 2", 'input = "2"', "line 2: 'input' is '2'"),
        ("input = 2\n", "", "no 'input'"),
        ("2024-01-31", '"2024-01-31"', "line 6: 'date'"),
        ("output", "outputs", "line 3: 'outputs' is no key"),
        ('source = "https://example.org"\n', "", "no 'source'"),
    ],
)
def test_a_price_that_is_none_is_named(prices: Path, old: str, new: str, words: str) -> None:
    prices.write_text(prices.read_text().replace(old, new))
    with pytest.raises(DataError, match=words):
        load_prices(prices)
