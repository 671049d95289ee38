"""Writes the questions for tools that ask elsewhere: a plain list, a task of lm-evaluation-harness, one of Inspect.

A task asks the questions of one day: those of facts that somebody holds on it, each with the labels of those who do.
What comes back is read by ``dyknow.outputs`` and judged here for any day; the number a tool prints by itself compares
with labels letter by letter and is coarser.
"""

import json
import pprint
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from dyknow.benchmark import Benchmark, Question
from kg.answers import AnswerSet
from kg.dates import format_day
from kg.errors import DataError, UsageError
from kg.snapshot import Snapshot

QUESTION_COLUMNS: Final = ("question", "fact", "domain", "subject", "property", "office", "phrasing", "prompt")
"""A table of these with a column ``text`` put to it is read by ``dyknow import``."""

DATA: Final = "questions.jsonl"
MAX_TOKENS: Final = 48
"""Tokens an answer may have: as many as in a chat of our own."""


class Sheet(NamedTuple):
    """The questions of one day with their right answers, and what both rest on."""

    name: str  # of the task: letters, digits and underscores
    about: dict[str, Any]  # as_of, rule, snapshot, snapshot_digest, benchmark, benchmark_digest, prefixed
    rows: list[dict[str, Any]]  # one a question: question, fact, domain, subject, phrasing, prompt, target
    left_out: int  # questions of facts that nobody is known to hold on that day


def question_rows(questions: Iterable[Question]) -> list[dict[str, Any]]:
    """Return the questions as a table for whoever asks them elsewhere, by ``QUESTION_COLUMNS``."""
    return [_question(question) for question in questions]


def _question(question: Question) -> dict[str, Any]:
    fact = question.fact
    values = (question.id, fact.id, fact.domain, fact.subject_label, fact.property, fact.office)
    return dict(zip(QUESTION_COLUMNS, (*values, question.phrasing, question.text), strict=True))


def sheet(
    benchmark: Benchmark, sets: Iterable[AnswerSet], snapshot: Snapshot, rule: str = "latest", *, prefix: bool = False
) -> Sheet:
    """Return the questions of a benchmark that have an answer on a day, with the labels of who is up-to-date.

    Args:
        benchmark: What to ask.
        sets: The answer sets of that day; those of other facts are passed over.
        snapshot: Where the answer sets are from.
        rule: Which holder counts as up-to-date, for the record.
        prefix: Put "Answer with the name only" before each question.

    Raises:
        UsageError: nobody is known to hold any of the facts on that day.
    """
    holders = {one.fact: one for one in sets if one.up_to_date}
    questions = benchmark.questions(prefix)
    rows = [
        _question(question) | {"target": [holder.label for holder in holders[question.fact.id].up_to_date]}
        for question in questions
        if question.fact.id in holders
    ]
    if not rows:
        message = f"Snapshot {snapshot.id} knows no answer to any question of {benchmark.name} on that day."
        raise UsageError(message, hint="See: dyknow snapshot list")
    day = format_day(next(iter(holders.values())).as_of)
    about = {
        "as_of": day,
        "rule": rule,
        "snapshot": snapshot.id,
        "snapshot_digest": snapshot.digest,
        "benchmark": benchmark.name,
        "benchmark_digest": benchmark.digest,
        "prefixed": prefix,
    }
    return Sheet(_identifier(f"{benchmark.name}_{day}"), about, rows, len(questions) - len(rows))


def _identifier(name: str) -> str:
    """Return a name of which Python and YAML make no other sense.

    >>> _identifier("my facts_2023-12-18"), _identifier("2nd")
    ('my_facts_2023_12_18', 'task_2nd')
    """
    safe = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")
    return safe if safe[:1].isalpha() else f"task_{safe}"


# lm-evaluation-harness


def lm_eval_files(asked: Sheet) -> dict[str, str]:
    """Return the files of a task folder for lm-evaluation-harness, by name."""
    rows = [row | asked.about for row in asked.rows]
    return {f"{asked.name}.yaml": _yaml(asked), DATA: _lines(rows), "README.md": _lm_eval_readme(asked)}


def _yaml(asked: Sheet) -> str:
    # A JSON text is a YAML text, so what comes from outside is written as one.
    metadata = "".join(f"  {key}: {json.dumps(value)}\n" for key, value in asked.about.items())
    return f"""\
# Made by dyknow. The prompt is asked as it stands; the whole answer is logged, and its first line compared.
task: {asked.name}
dataset_path: json
dataset_kwargs:
  data_files:
    test: {DATA}
test_split: test
output_type: generate_until
doc_to_text: prompt
doc_to_target: target
num_fewshot: 0
generation_kwargs:
  until: []
  do_sample: false
  temperature: 0.0
  max_gen_toks: {MAX_TOKENS}
filter_list:
  - name: first-line
    filter:
      - function: regex
        regex_pattern: {json.dumps(_FIRST_LINE)}
        fallback: ""
      - function: take_first
metric_list:
  - metric: exact_match
    aggregation: mean
    higher_is_better: true
    ignore_case: true
    ignore_punctuation: true
metadata:
  version: 1.0
{metadata}"""


_FIRST_LINE: Final = r"^\s*([^\n]+)"


def _lm_eval_readme(asked: Sheet) -> str:
    command = (
        f"lm_eval --model hf --model_args pretrained=MODEL --tasks {asked.name} --include_path . "
        "--output_path results --log_samples"
    )
    return _readme(
        asked, _Tool("lm-evaluation-harness", "pip install 'lm_eval[hf]'", command, "results", "exact_match")
    )


# Inspect


def inspect_files(asked: Sheet) -> dict[str, str]:
    """Return the files of an Inspect task, by name."""
    rows = [
        {
            "id": row["question"],
            "input": row["prompt"],
            "target": row["target"],
            "metadata": {key: value for key, value in row.items() if key not in ("prompt", "target")} | asked.about,
        }
        for row in asked.rows
    ]
    return {f"{asked.name}.py": _task(asked), DATA: _lines(rows), "README.md": _inspect_readme(asked)}


def _task(asked: Sheet) -> str:
    about = pprint.pformat(asked.about, width=110, sort_dicts=False)
    return f'''\
"""Made by dyknow: who holds what on {asked.about["as_of"]}. An answer counts that includes a holder's label."""

from pathlib import Path

from inspect_ai import Task, task
from inspect_ai.dataset import json_dataset
from inspect_ai.model import GenerateConfig
from inspect_ai.scorer import includes
from inspect_ai.solver import generate


@task
def {asked.name}() -> Task:
    """Ask the questions in {DATA}."""
    return Task(
        dataset=json_dataset(str(Path(__file__).with_name("{DATA}"))),
        solver=generate(),
        scorer=includes(),
        config=GenerateConfig(temperature=0.0, max_tokens={MAX_TOKENS}),
        metadata=ABOUT,
    )


ABOUT = {about}
'''


def _inspect_readme(asked: Sheet) -> str:
    command = f"inspect eval {asked.name}.py --model MODEL --log-dir logs"
    return _readme(asked, _Tool("Inspect", "pip install inspect_ai", command, "logs", "includes"))


# What both have


class _Tool(NamedTuple):
    """What the README of a task says of the tool that asks."""

    name: str
    install: str
    command: str
    results: str  # the folder it writes
    score: str


def _readme(asked: Sheet, tool: _Tool) -> str:
    about = asked.about
    left = (
        f"\n{asked.left_out} questions of facts that nobody is known to hold then are left out."
        if asked.left_out
        else ""
    )
    return f"""\
# {asked.name}: questions for {tool.name}

{len(asked.rows)} questions of the benchmark `{about["benchmark"]}`, with the right answers of {about["as_of"]}
by snapshot {about["snapshot"]} (`{about["snapshot_digest"]}`).{left}

Install the tool (`{tool.install}`), and in this folder:

    {tool.command}

Then, where dyknow is installed:

    dyknow import {tool.results}
    dyknow score --as-of {about["as_of"]}

The `{tool.score}` that {tool.name} prints compares an answer with the labels of the holders, letter by letter:
"Mattarella" is not "Sergio Mattarella" to it, a name in passing may pass for an answer, and it cannot tell outdated
from wrong. `dyknow import` reads whom each answer names and judges it for any day; the verdicts are those of
`dyknow run` on the same texts.

Answers may have {MAX_TOKENS} tokens. A reasoning model needs more: raise the limit, or its thoughts are all there is.
"""


def _lines(rows: Sequence[Mapping[str, Any]]) -> str:
    return b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows).decode()


def write(files: Mapping[str, str], folder: Path) -> list[Path]:
    """Write the files of a task into a folder and return them; what stands there with these bytes is left alone.

    Raises:
        UsageError: a file of that name is there and differs; nothing is written then.
        DataError: the folder cannot be written.
    """
    wanted = {folder / name: text.encode() for name, text in files.items()}
    try:
        for path, content in wanted.items():
            if path.exists() and path.read_bytes() != content:
                raise UsageError(f"{path} is there already and differs.", hint="Give another folder with --out.")
        folder.mkdir(parents=True, exist_ok=True)
        for path, content in wanted.items():
            path.write_bytes(content)
    except OSError as error:
        raise DataError(f"{folder} cannot be written: {error}.") from error
    return list(wanted)
