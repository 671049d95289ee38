"""Models behind servers, asked over real HTTP on loopback."""

import json
import logging
import os
import signal
import subprocess
import sys
import time
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
