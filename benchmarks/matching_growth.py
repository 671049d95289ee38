"""How matching grows with responses, holders and the length of texts: ``python -m benchmarks.matching_growth``.

Seconds are those of the processor, of all processes together and without making texts up, so that a busy machine says
nearly what an idle one does. An exponent is the slope of log seconds against log size from one size to the next: 1 is
linear. Responses are matched in a process of its own for each size, and its peak memory is beside them; the facts and
their holders are those of `benchmarks.synthetic`.
"""

import argparse
import math
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import orjson

from benchmarks import synthetic
from dyknow.candidates import Asked, Candidate, candidates_digest, compiled
from dyknow.match import match
from dyknow.matching import Pair, match_rows

RESPONSES: Final = (10_000, 100_000, 1_000_000)
HOLDERS: Final = (10, 30, 100, 300, 1000, 3000, 10_000)
LENGTHS: Final = (100, 1000, 10_000, 100_000)
EACH: Final = 10
"""Answers to a fact."""

_DAY: Final = 20251201
_PROMPT: Final = "The office is held by"
_ANSWERS: Final = (
    "{name}.",
    "{name}",
    "{prompt} {name}. He was born on {number} May 1961 in a small town and has held many posts since.",
    "As of my last update in 2021, the answer is {name}. Please check a source of today, such as no. {number}.",
    "a member of the party of the people, which has {number} seats.",
    "{name}, who took office in 2019 after {other} stepped down; file {number}.",
    "I'm sorry, I cannot say that with certainty ({number}).",
    "{other}. Sorry, I meant {name}, of course, as source {number} has it.",
    "Boutros Velminsky, no. {number}.",
    "Boutros Velminsky",
)
_TEXTS: Final = {
    "a holder's name": "{name}.",
    "a stranger's name": "The answer is Boutros Velminsky.",
    "a name misspelt": "{name}a.",
    "a name cut off": "The answer is Boutros",
}
_LONG: Final = {
    "prose": "The weather in the town was fine and many people came to see it. ",
    "names": "Boutros Velminsky and Rama Kolito met Bela Murano there, too; ",
    "line ends after a mark": "\n",
    "blanks after a year": " ",
    "no blanks": "b",
    "marks of turns": "User: a\n",
    "Chinese": "习近平是中国国家主席。",
    "NUL": "\x00",
}
_BEFORE: Final = {"line ends after a mark": "user", "blanks after a year": "2010 -", "no blanks": "A"}


def asked(fact: str, labels: Sequence[str]) -> Asked:
    """Return a fact with holders of these names, in the order of their terms."""
    held = tuple(Candidate(f"{fact}-{at}", (label,), 10_000_000 + at) for at, label in enumerate(labels))
    return Asked(fact, "Atlantis", "P6", None, True, held, candidates_digest(held))


def holders(count: int) -> Asked:
    """Return a club with so many players."""
    draw = random.Random(count)
    return asked(f"club of {count}", [_name(draw) for _ in range(count)])


def _name(draw: random.Random) -> str:
    """Return a name of two to four words."""
    syllables = [consonant + vowel for consonant in "bdklmnrstv" for vowel in "aeio"]
    return " ".join(
        "".join(draw.choices(syllables, k=draw.choice((2, 2, 3)))).title() for _ in range(draw.choice((2, 2, 3, 4)))
    )


def pairs(count: int) -> Iterator[Pair]:
    """Yield so many different answers to made-up facts, ten to each."""
    for fact in synthetic.made(count // EACH, 0, _DAY):
        labels = list(dict.fromkeys(row.holder for row in fact.rows if row.holder)) or ["Nobody"]
        one = asked(fact.id, labels)
        for number in range(EACH):
            name, other = labels[number % len(labels)], labels[number // 2 % len(labels)]
            text = _ANSWERS[number].format(prompt=_PROMPT, name=name, other=other, number=number)
            yield Pair(f"{fact.id}#{number}", _PROMPT, text, one)


def measured(count: int, workers: int | None) -> dict[str, float]:
    """Match so many responses here, and return seconds and peak memory in MB."""
    making = 0.0

    def timed() -> Iterator[Pair]:
        nonlocal making
        source = pairs(count)
        while True:
            start = time.process_time()
            pair = next(source, None)
            making += time.process_time() - start
            if pair is None:
                return
            yield pair

    wall = time.perf_counter()
    rows = sum(1 for _ in match_rows(timed(), workers))
    assert rows == count // EACH * EACH
    own, others = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return {
        "wall": time.perf_counter() - wall,
        "seconds": time.process_time() - making + others.ru_utime + others.ru_stime,
        "own_mb": own.ru_maxrss / 1024,
        "worker_mb": others.ru_maxrss / 1024,
    }


def apart(count: int, workers: int) -> dict[str, float]:
    """Match so many responses in a process of its own."""
    arguments = ("--inside", str(count), "--workers", str(workers))
    done = subprocess.run(
        (sys.executable, "-m", "benchmarks.matching_growth", *arguments), check=True, capture_output=True
    )
    found: dict[str, float] = orjson.loads(done.stdout)
    return found


def seconds(work: Callable[[], object], least: float = 0.05) -> float:
    """Return how long something takes: the best of three, each done as often as is needed to say so."""
    work()
    return min(_mean(work, least) for _ in range(3))


def _mean(work: Callable[[], object], least: float) -> float:
    times, start = 0, time.process_time()
    while (passed := time.process_time() - start) < least:
        work()
        times += 1
    return passed / times


def calls(work: Callable[[], object]) -> int:
    """Return how many functions something calls and leaves, which does not depend on what else the machine does."""
    found = 0

    def count(*_: object) -> None:
        nonlocal found
        found += 1

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found


def exponents(sizes: Sequence[int], found: Sequence[float]) -> str:
    """Return the slopes from size to size, and from the first to the last."""

    def slope(a: int, b: int) -> str:
        return f"{math.log(found[b] / found[a]) / math.log(sizes[b] / sizes[a]):.2f}"

    return " ".join(slope(at, at + 1) for at in range(len(sizes) - 1)) + f"; in all {slope(0, -1)}"


def by_responses(sizes: Sequence[int], workers: int) -> Iterator[str]:
    """Measure matching by the number of responses."""
    found = [apart(size, workers) for size in sizes]
    for size, one in zip(sizes, found, strict=True):
        yield (
            f"{size:,} responses to {size // EACH:,} facts, {workers} processes: {one['seconds']:.1f} s"
            f" ({one['wall']:.1f} s by the clock), peak {one['own_mb']:.0f} MB, a worker's {one['worker_mb']:.0f} MB"
        )
    if len(sizes) > 1:
        yield f"  exponents {exponents(sizes, [one['seconds'] for one in found])}"


def by_holders() -> Iterator[str]:
    """Measure compiling names, and matching a text to them, by the number of holders."""
    facts = [holders(count) for count in HOLDERS]
    taken = [seconds(lambda one=one: compiled(one.candidates)) for one in facts]  # type: ignore[misc]
    yield f"holders {' '.join(map(str, HOLDERS))}"
    yield f"  names compiled: ms {_listed(taken, 1e3, 1)}; exponents {exponents(HOLDERS, taken)}"
    each = [calls(lambda one=one: compiled(one.candidates)) / len(one.candidates) for one in facts]  # type: ignore[misc]
    yield f"  calls and returns of functions a holder: {_listed(each, 1)}"
    for what, shape in _TEXTS.items():
        texts = [shape.format(name=one.candidates[len(one.candidates) // 2].labels[0]) for one in facts]
        taken = [_match_seconds(text, one) for text, one in zip(texts, facts, strict=True)]
        yield f"  {what}: µs {_listed(taken)}; exponents {exponents(HOLDERS, taken)}"


def by_length() -> Iterator[str]:
    """Measure matching by the length of the text."""
    one = holders(10)
    yield f"signs of a text {' '.join(map(str, LENGTHS))}"
    for what, part in _LONG.items():
        before = _BEFORE.get(what, "")
        texts = [before + (part * (length // len(part) + 1))[:length] + "(x" for length in LENGTHS]
        taken = [_match_seconds(text, one) for text in texts]
        yield f"  {what}: µs {_listed(taken)}; exponents {exponents(LENGTHS, taken)}"


def _listed(taken: Sequence[float], times: float = 1e6, digits: int = 0) -> str:
    return " ".join(f"{times * each:.{digits}f}" for each in taken)


def _match_seconds(text: str, one: Asked) -> float:
    return seconds(lambda: match(text, "", one.candidates, one.subject, one.office))


def main() -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--responses", type=int, nargs="+", default=RESPONSES, help="how many, size by size")
    parser.add_argument("--workers", type=int, default=2, help="processes that match")
    parser.add_argument("--only", choices=("responses", "holders", "length"), help="measure this alone")
    parser.add_argument("--inside", type=int, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.inside:
        print(orjson.dumps(measured(chosen.inside, chosen.workers)).decode())
        return
    growth: dict[str, Callable[[], Iterator[str]]] = {
        "responses": lambda: by_responses(chosen.responses, chosen.workers),
        "holders": by_holders,
        "length": by_length,
    }
    for name, measure in growth.items():
        for line in measure() if chosen.only in (None, name) else ():
            print(line, flush=True)


if __name__ == "__main__":
    main()
