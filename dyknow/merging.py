"""Parts of a run, asked by several processes, joined to the run that one process would have made.

The parts stay as they are. The lines of the merged journals are those of the parts, byte for byte, in the order in
which one process asks: sample after sample, question after question.
"""

import heapq
import mmap
import tempfile
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from dyknow import journal, prompts, segments
from dyknow.journal import JOURNAL, LIKELIHOODS, QUESTIONS, RunInfo, read_run
from dyknow.run import differing, settings_digest, valid_id
from dyknow.shards import shard_of
from dyknow.tally import Account, Tally
from kg.errors import RunError, UsageError

_PARTIAL: Final = "Or merge what is there: --partial."
_ALIKE: Final = ("model", "prefixed", "benchmark", "sampling", "seed")


class Merged(NamedTuple):
    """What became of the parts of a run."""

    run: RunInfo
    written: bool  # False: it was merged before, with the same answers
    lacks: tuple[str, ...]  # what the parts do not have, in words; empty: it is whole


def parts_of(runs: Sequence[RunInfo], names: Sequence[str]) -> list[RunInfo]:
    """Return the parts that names stand for: each its own, or all parts of the run of that name.

    Raises:
        UsageError: a name stands for none.
    """
    found: dict[str, RunInfo] = {}
    for name in names:
        own = [run for run in runs if run.part and name in (run.id, run.info["shard"]["run"])]
        if not own:
            whole = any(run.id == name for run in runs)
            message = f"The run {name} is no part of another." if whole else f"There is no part of a run {name!r}."
            raise UsageError(message, hint="dyknow runs list shows the parts; dyknow run MODEL --shard 1/4 makes one.")
        found |= {run.id: run for run in own}
    return sorted(found.values(), key=lambda run: (shard_of(run.info) or (0, 0), run.id))


def merge(
    parts: Sequence[RunInfo], runs_dir: Path, *, run_id: str | None = None, partial: bool = False, command: str | None
) -> Merged:
    """Join the parts of a run, and return it; nothing is written where it is there already.

    Args:
        parts: Runs that were each asked a part.
        runs_dir: The folder of all runs.
        run_id: The name of the merged run; None: what the parts say, with ".partial" after it where something lacks.
        partial: Whether to merge though questions are missing or not asked to the end. The run is then one of fewer
            questions, and what was not answered counts as unanswered.
        command: What the user typed, for the record.

    Raises:
        RunError: the parts were made with different settings, two of them ask the same question, something lacks, a
            part is being written, or another run has the name.
    """
    _check_alike(parts)
    with ExitStack() as stack:
        for part in parts:
            stack.enter_context(journal.locked(part.path))
        runs_dir.mkdir(parents=True, exist_ok=True)
        # Two folders deep, so that nobody who lists the runs meanwhile sees one that is not yet whole.
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=".merging-", dir=runs_dir)))
        joined = _Joined([read_run(part.path) for part in parts], scratch)
        lacks = tuple(joined.lacks())
        if lacks and not partial:
            raise RunError(f"{lacks[0]}{f' And {len(lacks) - 1} more.' if lacks[1:] else ''}", hint=joined.hint())
        name = valid_id(run_id or parts[0].info["shard"]["run"] + (".partial" if lacks else ""))
        made = scratch / name
        made.mkdir()
        joined.write(made, command)
        return Merged(*_placed(made, runs_dir / name), lacks)


def _check_alike(parts: Sequence[RunInfo]) -> None:
    first = parts[0]
    for other in parts[1:]:
        words = differing(other.info, {key: first.info[key] for key in _ALIKE})
        if other.info["shard"]["prompts_digest"] != first.info["shard"]["prompts_digest"]:
            words.append("set of questions")
        if words:
            message = f"The part {other.id} was made with another {', '.join(words)} than {first.id}."
            raise RunError(message, hint="Only parts of one run can be merged.")


def _placed(made: Path, target: Path) -> tuple[RunInfo, bool]:
    """Put a merged run in its place, where nothing else is."""
    if not target.exists():
        made.rename(target)
        segments.sync_folder(target.parent)
        return read_run(target), True
    for name in (JOURNAL, LIKELIHOODS, QUESTIONS):
        if segments.digest(made / name) != segments.digest(target / name):
            hint = "Give the merged run another name (--run-id), or move that run away."
            raise RunError(f"The run {target.name} is there already, and its {name} differs.", hint=hint)
    return read_run(target), False


@dataclass
class _Lines:
    """Lines of several journals in one file, and where each stands there and in the order wanted."""

    path: Path
    keys: "array[int]" = field(default_factory=lambda: array("Q"))
    ends: "array[int]" = field(default_factory=lambda: array("Q", [0]))

    def ordered(self) -> Iterator[bytes]:
        """Yield the lines in their order; of equal keys the first one first."""
        if not self.keys:
            return
        with self.path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as lines:
            for number in sorted(range(len(self.keys)), key=self.keys.__getitem__):
                yield lines[self.ends[number] : self.ends[number + 1]]


class _Joined:
    """Parts read once: who asks what, what was answered, and the lines in one scratch file.

    Args:
        parts: The parts, held for writing.
        scratch: A folder for the lines.
    """

    def __init__(self, parts: Sequence[RunInfo], scratch: Path) -> None:
        self._parts = parts
        self._whole = parts[0].info["shard"]
        self._positions: dict[str, int] = {}
        self._asked = Counter({part.id: 0 for part in parts})
        for number, part in enumerate(parts):
            self._read_questions(part, parts[:number])
        self._tally, self._account = Tally(), Account()
        self._killed: dict[str, dict[str, Any]] = {}
        self._unanswered: dict[str, int] = {}
        self._samples = max(part.samples for part in parts)
        self._answers = self._read(scratch / JOURNAL)
        self._scores = self._read_scores(scratch / LIKELIHOODS)

    def _read_questions(self, part: RunInfo, before: Sequence[RunInfo]) -> None:
        for row in journal.each(part.path / QUESTIONS, "fact"):
            if row["asked"] and row["question"] in self._positions:
                other = next(one for one in before if row["question"] in _asked_by(one))
                message = f"Both {other.id} ({other.part}) and {part.id} ({part.part}) ask {row['question']}."
                raise RunError(message, hint="Leave one of them out: name the parts to merge.")
            if row["asked"]:
                self._positions[row["question"]] = row["position"]
                self._asked[part.id] += 1

    def _read(self, path: Path) -> _Lines:
        """Copy the lines of all parts' answers, count them, and note their order."""
        found = _Lines(path)
        with path.open("wb") as out:
            for part in self._parts:
                killed, first = Account(), _unclosed(part)
                before = self._tally.lines
                for line in segments.lines(part.path / JOURNAL):
                    row = orjson.loads(line)
                    if first is not None and self._tally.lines - before >= first:
                        killed.add(row)
                    self._tally.add(row)
                    self._account.add(row)
                    found.keys.append(row.get("sample", 0) * self._whole["questions"] + self._place(part, row))
                    found.ends.append(found.ends[-1] + out.write(line))
                if first is not None:
                    self._killed[part.id] = killed.record()
        return found

    def _read_scores(self, path: Path) -> _Lines:
        """Copy the last line of every question that was scored."""
        found = _Lines(path)
        with path.open("wb") as out:
            for part in self._parts:
                for row in journal.likelihoods(part.path):
                    found.keys.append(self._place(part, row))
                    found.ends.append(found.ends[-1] + out.write(journal.line_of(row)))
        return found

    def _place(self, part: RunInfo, row: Mapping[str, Any]) -> int:
        """Return where a question stands in the whole run."""
        place = self._positions.get(row["question"])
        if place is None:
            message = f"The part {part.id} answers {row['question']}, which it was not to be asked."
            raise RunError(message, hint=f"See: dyknow runs verify {part.id}")
        return place

    # What lacks

    def lacks(self) -> Iterator[str]:
        """Yield a sentence for everything that the parts do not have and the whole run has."""
        missing = self._whole["questions"] - len(self._positions)
        if absent := self._absent():
            those = "part" if len(absent) == 1 else "parts"
            is_or_are = "is" if len(absent) == 1 else "are"
            yield f"Of {self._whole['run']} the {those} {', '.join(absent)} {is_or_are} missing."
        elif missing:
            yield f"Of {self._whole['run']} {missing} of {self._whole['questions']} questions are in no part."
        for part in self._parts:
            if open_ := self._open(part):
                total = self._asked[part.id] * self._samples
                yield f"The part {part.id} has {open_} of {total} answers still to ask for."
            scored = (part.info.get("likelihoods") or {}).get("ended")
            if not scored and any(one.info.get("likelihoods") for one in self._parts):
                yield f"The part {part.id} has not scored its holders to the end."

    def hint(self) -> str:
        """Return the next step where something lacks."""
        if absent := self._absent():
            return f"Ask it with --shard {absent[0]}. {_PARTIAL}"
        unfinished = next((part.id for part in self._parts if self._open(part)), self._parts[0].id)
        return f"Go on with it: dyknow runs resume {unfinished}. {_PARTIAL}"

    def _absent(self) -> list[str]:
        """Return the parts that are not there; none where the parts are of different numbers of parts."""
        shards = [shard for part in self._parts if (shard := shard_of(part.info))]
        [of, *others] = {shard.of for shard in shards}
        there = {shard.number for shard in shards}
        return [] if others else [f"{number}/{of}" for number in range(1, of + 1) if number not in there]

    def _open(self, part: RunInfo) -> int:
        """Return how many answers of a part were never asked for."""
        if not any(one.info.get("legs") for one in self._parts):
            return 0  # none was asked to answer: their holders were scored
        if part.id not in self._unanswered:
            asked, samples = _asked_by(part), range(self._samples)
            self._unanswered[part.id] = sum(not self._tally.attempts(one, n) for one in asked for n in samples)
        return self._unanswered[part.id]

    # Writing

    def write(self, folder: Path, command: str | None) -> None:
        """Write the merged run into a folder; its record last."""
        journal.replace_rows(folder / QUESTIONS, self._questions())
        for name, lines in ((JOURNAL, self._answers), (LIKELIHOODS, self._scores)):
            if lines.keys:
                journal.replace(folder / name, lines.ordered())
        journal.write_run(folder, self._record(folder, command))

    def _questions(self) -> Iterator[dict[str, Any]]:
        each = (journal.each(part.path / QUESTIONS, "fact") for part in self._parts)
        for row in heapq.merge(*each, key=lambda row: str(row["question"])):
            yield {key: value for key, value in row.items() if key != "position"}

    def _record(self, folder: Path, command: str | None) -> dict[str, Any]:
        legs = self._legs()
        last = max(self._parts, key=lambda part: (part.info.get("legs") or [{}])[-1].get("started") or "")
        info = {key: value for key, value in last.info.items() if key != "shard"}
        info |= {"id": folder.name, "command": command, "samples": self._samples, "legs": legs, **self._settings(info)}
        info |= {"asking": self._asking(info.get("asking")), "merged": self._merged()}
        counts, account = self._tally.statuses, self._account
        info |= {"prompt_tokens": account.prompt_tokens, "tokens": account.tokens, "answered": self._tally.answered}
        info |= {"errors": counts["error"], "refused": counts["refused"]}
        starts, ends = ([part.info.get(key) for part in self._parts] for key in ("started", "ended"))
        whole = not any(self._open(part) for part in self._parts)
        info |= {"started": min(filter(None, starts), default=None)}
        info |= {"ended": max(filter(None, ends), default=None) if whole and None not in ends else None}
        return info | self._scored()

    def _settings(self, info: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the record says of the questions: those of the whole run, or where some lack, those there are."""
        if len(self._positions) == self._whole["questions"]:
            return {key: self._whole[key] for key in ("settings_digest", "prompts_digest", "questions")}
        texts = ((row["question"], row["text"]) for row in self._questions() if row["asked"])
        own = {"prompts_digest": prompts.digest(texts), "questions": len(self._positions)}
        return own | {"settings_digest": settings_digest({**info, **own})}

    def _asking(self, asking: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """Return how the whole run is asked; where questions lack, it cannot be asked like that."""
        if asking is None or len(self._positions) < self._whole["questions"]:
            return None
        return {key: value for key, value in asking.items() if key != "shard"}

    def _merged(self) -> dict[str, Any]:
        parts = [
            {"run": part.id, "shard": part.part, "settings_digest": part.info["settings_digest"]}
            for part in self._parts
        ]
        return {"parts": parts, "lacks": list(self.lacks())}

    def _legs(self) -> list[dict[str, Any]]:
        """Return the legs of all parts by their beginning; each says which part it is of."""
        found = []
        for part in self._parts:
            own = [{**leg, "run": part.id} for leg in part.info.get("legs") or ()]
            if part.id in self._killed:
                own[-1] |= self._killed[part.id]
            found += own
        return sorted(found, key=lambda leg: str(leg["started"]))

    def _scored(self) -> dict[str, Any]:
        own = [part.info["likelihoods"] for part in self._parts if part.info.get("likelihoods")]
        if not own:
            return {}
        ends = [one["ended"] for one in own]
        ended = max(ends) if None not in ends and len(own) == len(self._parts) else None
        errors = [one["error"] for one in own if one["error"]]
        sums = {key: sum(one[key] for one in own) for key in ("questions", "scored")}
        about = {"started": min(one["started"] for one in own), "ended": ended, "error": errors[0] if errors else None}
        return {"likelihoods": sums | about}


def _asked_by(part: RunInfo) -> set[str]:
    return {row["question"] for row in journal.each(part.path / QUESTIONS, "fact") if row["asked"]}


def _unclosed(part: RunInfo) -> int | None:
    """Return the first line of a part's last leg where it was killed before it could close its account."""
    last = (part.info.get("legs") or [{}])[-1]
    return last.get("first_row") if last.get("ended", "") is None else None
