"""Outputs that the study's authors published after editing or retrieval, as runs.

Each model's folder holds, for each domain, ``<domain>_answers.json`` (prompts and outputs) and
``<domain>_analysis.json`` (the outputs again, by phrasing and label). What was edited stands in
``datasets/<model>.json``, in some folder above. All are joined by subject, post and phrasing; that a label is of the
output with its key is checked.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from dyknow.editing import Edit
from dyknow.journal import EDITS
from dyknow.published import (
    DOMAINS,
    LABELLED_ON,
    UNCOUNTED,
    VERDICTS,
    Key,
    Output,
    files_of,
    line,
    load,
    located,
    models,
    outputs,
    place_of,
    response,
    write,
)
from kg import identity, terms
from kg.errors import DataError, UsageError


class Method(NamedTuple):
    """How the study's folders of one method are called here."""

    name: str
    mode: str | None  # the variant
    title: str


METHODS: Final[Mapping[str, Method]] = {
    "ROME": Method("rome", "sequential", "ROME"),
    "MEMIT": Method("memit", "batch", "MEMIT"),
    "SERAC": Method("serac", "batch", "SERAC"),
    "IKE": Method("ike", "fact withheld", "IKE"),
    "RAG_retrieved": Method("rag", "retrieved", "RAG retrieved"),
    "RAG_gold": Method("rag", "gold", "RAG gold"),
    "RAG_noise_and_gold": Method("rag", "noise and gold", "RAG noise and gold"),
}

SHUFFLED_WITH: Final = 42
"""The seed with which the study drew the facts of Figure 3."""

_BASES: Final = {"Llama-2-7b-chat-hf": "llama2-7b-chat"}
"""Names of model folders here -> those of the same model's own results, where they differ."""

_UNRESOLVED: Final = "ambiguous"


class ImportedEdits(NamedTuple):
    """What became of the outputs of one method and model."""

    id: str
    path: Path
    edits: int
    responses: int
    judgments: int
    unresolved: int  # outputs whose label is "ambiguous": they have no verdict
    written: bool  # False: the run was there already, byte for byte


class _Place(NamedTuple):
    folder: Path
    method: str  # a key of METHODS
    model: str
    share: str | None  # "0.25": so much of the edits; None where all were made


class _Request(NamedTuple):
    edit: Edit
    questions: Mapping[str, str]  # words by phrasing


def import_edits(path: Path, runs_dir: Path, run_id: str | None = None) -> list[ImportedEdits]:
    """Turn the published outputs after editing in a folder, or below it, into runs under ``runs_dir``.

    The same files always give the same bytes. A run that is already there with these bytes is left alone.

    Args:
        path: One model's outputs, a method's, those by number of edits, or all of them.
        runs_dir: Where runs live; created when missing.
        run_id: Name of the run, for a single folder; by default model and method, and the share of the edits made.

    Returns:
        One entry a folder of outputs, sorted by id.

    Raises:
        UsageError: there are no such outputs at ``path``, or one name is given for several folders.
        DataError: a file is malformed or missing; the message names it and the key.
        RunError: a different run of that name exists.
    """
    found = [_place(folder) for folder in sorted({file.parent for file in path.rglob("*_analysis.json")})]
    if not found:
        hint = "Give a folder with <domain>_analysis.json files, or one that holds such folders."
        raise UsageError(f"{path} holds no published outputs of edited models.", hint=hint)
    if run_id is not None and len(found) != 1:
        raise UsageError(f"{path} holds outputs of {len(found)} runs, and a run id names one.")
    return sorted(_import_one(place, runs_dir / (run_id or _run_id(place))) for place in found)


def _place(folder: Path) -> _Place:
    """Read method, model and share out of the names of the folders above the files."""
    parts = folder.resolve().parts
    method = next((part for part in reversed(parts) if part in METHODS), None)
    if method is None:
        raise UsageError(f"{folder} does not say by which method.", hint=f"It lies below one of {', '.join(METHODS)}.")
    if parts[-1].replace(".", "", 1).isdigit():  # by_number_of_edits/<model>/<method>/<mode>/<share>
        return _Place(folder, method, parts[len(parts) - 2 - parts[::-1].index(method)], parts[-1])
    return _Place(folder, method, parts[-1], None)


def _run_id(place: _Place) -> str:
    return ".".join(
        filter(None, (place.model, place.method, place.share and f"{100 * float(place.share):.0f}-percent"))
    )


class _Answer(NamedTuple):
    """An output and where it belongs."""

    domain: str  # as the study names its files
    key: Key
    fact: str
    output: Output

    @property
    def question(self) -> str:
        return f"{self.fact}#{self.key[-1]}"


class _Label(NamedTuple):
    verdict: str | None  # None: "ambiguous"
    start: str | None
    prediction: str


def _import_one(place: _Place, target: Path) -> ImportedEdits:
    dataset = _dataset(place)
    requests = _requests(dataset)
    answers = _answers(place.folder)
    edited = [requests[fact] for fact in _order(place, requests, answers)]
    _check_questions(place, answers, requests)
    judgments, unresolved = _judgments(place.folder, answers)
    if place.method == "SERAC":
        answers = _with_memory(answers, edited)
    responses = [response(one.question, one.fact, DOMAINS[one.domain], one.key, one.output) for one in answers]
    files = files_of(_record(place, target.name, dataset, len(edited), len(requests)), responses, judgments)
    files[EDITS] = b"".join(line(request.edit._asdict()) for request in edited)
    written = write(target, files)
    return ImportedEdits(target.name, target, len(edited), len(responses), len(judgments), unresolved, written)


def _record(place: _Place, run_id: str, dataset: Path, edits: int, of: int) -> dict[str, Any]:
    method, base = METHODS[place.method], _BASES.get(place.model, place.model)
    known = models().get(base, {})
    count = f" {edits}/{of}" if place.share else ""
    sources = [file for file in sorted(place.folder.glob("*.json")) if not file.name.endswith("_answer_sheet.json")]
    return {
        "id": run_id,
        "model": place.model,
        "release_year": known.get("year"),
        "title": f"{known.get('title', place.model)} + {method.title}{count}",
        "source": {file.name: file for file in sources} | {f"datasets/{dataset.name}": dataset},
        "align": {
            "method": method.name,
            "mode": method.mode,
            "preset": "paper",
            "model": place.model,
            "base_run": base,
            "as_of": LABELLED_ON,
            "edits": edits,
            "of": of,
            "seed": SHUFFLED_WITH if place.share else None,
        },
    }


# What was edited


def _dataset(place: _Place) -> Path:
    name = Path("datasets") / f"{place.model}.json"
    found = next((folder / name for folder in place.folder.resolve().parents if (folder / name).is_file()), None)
    if found is None:
        raise DataError(
            f"Nothing says what was edited in {place.folder}.", hint=f"{name} belongs into a folder above it."
        )
    return found


def _requests(dataset: Path) -> dict[str, _Request]:
    """Return the edits of a dataset by fact, in its order."""
    try:
        rows = orjson.loads(dataset.read_bytes())
        found = [_request(dataset, row) for row in rows]
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{dataset} is no list of edits: {error!r}.") from error
    by_fact = {request.edit.fact: request for request in found}
    if len(by_fact) < len(found):
        raise DataError(f"{dataset} edits a fact twice.")
    return by_fact


def _request(dataset: Path, row: Mapping[str, Any]) -> _Request:
    fact = located(dataset, row["domain"], row["element"], row["attribute"])
    questions: dict[str, str] = row["questions"]
    others = [name for name in questions if name not in (UNCOUNTED, row["prompt_type"])]
    iri = terms.holder_iri(row["element"], fact.split("/")[1], row["target"])
    edit = Edit(
        fact=fact,
        domain=DOMAINS[row["domain"]],
        operation="update",
        prompt=f"{fact}#{row['prompt_type']}",
        paraphrases=tuple(f"{fact}#{name}" for name in others),
        target=row["target"],
        target_entity=identity.load().entity(iri),
    )
    return _Request(edit, questions)


def _order(place: _Place, requests: Mapping[str, _Request], answers: Sequence[_Answer]) -> list[str]:
    """Return the facts that were edited, in the order of the file that lists them."""
    answered = {one.fact for one in answers}
    drawn = place.folder / "qa_to_update.json"
    listed = list(_listed(drawn)) if drawn.is_file() else [fact for fact in requests if fact in answered]
    for fact in sorted(answered ^ set(listed)) + [fact for fact in listed if fact not in requests]:
        where = "answered and not listed as edited" if fact in answered else "listed as edited and not answered"
        raise DataError(f"{place.folder}: the fact {fact} is {where}.")
    return listed


def _listed(drawn: Path) -> Iterator[str]:
    for domain, subjects in load(drawn).items():
        for subject, value in subjects.items():
            for post in [None] if "answers" in value else value:
                yield located(drawn, domain, subject, post)


def _check_questions(place: _Place, answers: Sequence[_Answer], requests: Mapping[str, _Request]) -> None:
    for one in answers:
        asked = requests[one.fact].questions.get(one.key[-1])
        if asked is None or asked not in one.output.prompt:
            raise DataError(f"{place.folder}: {place_of(one.key)} is not asked as the dataset has it: {asked!r}.")


# What was answered


def _answers(folder: Path) -> list[_Answer]:
    found = []
    for domain in DOMAINS:
        source = folder / f"{domain}_answers.json"
        if source.is_file():
            for key, output in outputs(source):
                subject, *post, _ = key
                found.append(_Answer(domain, key, located(source, domain, subject, post[0] if post else None), output))
    return found


def _with_memory(answers: Sequence[_Answer], edited: Sequence[_Request]) -> list[_Answer]:
    """Put the entry of SERAC's memory that stands before the question into the prompt: the small model was given both.

    The file has it in the output only. Without this the entry's target would be read as the answer. The question gets a
    line of its own, for what stands in a prompt's last line is what is asked.
    """
    asked = {one.question: one.output.prompt for one in answers}
    entries = [f"{asked[request.edit.prompt]} {request.edit.target}" for request in edited]

    def given(output: Output) -> str:
        found = next((one for one in entries if (output.text or "").startswith(f"{one} {output.prompt}")), None)
        return output.prompt if found is None else f"{found}\n{output.prompt}"

    return [one._replace(output=one.output._replace(prompt=given(one.output))) for one in answers]


# What it was labelled


def _judgments(folder: Path, answers: Sequence[_Answer]) -> tuple[list[dict[str, Any]], int]:
    """Return the published labels, and how many were left open: those are no verdict."""
    labels = {
        (domain, key): label
        for domain in DOMAINS
        if (folder / f"{domain}_analysis.json").is_file()
        for key, label in _labels(folder / f"{domain}_analysis.json")
    }
    rows, unresolved = [], 0
    for one in answers:
        label = labels.get((one.domain, one.key))
        if label is None:
            continue
        if not (one.output.text or "").endswith(label.prediction):
            raise DataError(f"{folder}: the label of {place_of(one.key)} is of another output, {label.prediction!r}.")
        if label.verdict is None:
            unresolved += 1
            continue
        about = {"question": one.question, "sample": 0, "judge": "published", "as_of": LABELLED_ON}
        rows.append({**about, "verdict": label.verdict, "start": label.start})
    return rows, unresolved


def _labels(path: Path) -> Iterator[tuple[Key, _Label]]:
    """Yield the labels of an analysis file by (subject, phrasing) or (subject, post, phrasing)."""
    for phrasing, by_label in load(path).items():
        for name, rows in by_label.items():
            if name not in VERDICTS and name != _UNRESOLVED:
                known = ", ".join((*VERDICTS, _UNRESOLVED))
                raise DataError(f"{path}: {phrasing} has the label {name!r}.", hint=f"Known labels: {known}.")
            for row in rows:
                post = () if row["attribute"] is None else (row["attribute"],)
                starts = [start for _, start in row["matched_answers"]]
                start = starts[0] if name in ("correct", "outdated") and starts else None
                yield (row["element"], *post, phrasing), _Label(VERDICTS.get(name), start, row["prediction"])
