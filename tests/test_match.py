import csv
import unicodedata
from importlib.metadata import version
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dyknow.match import CUTOFFS, PARAMETERS, Candidate, Reason, candidates_digest, load_aliases, match
from dyknow.names import fold, word_list, words

CASES = Path(__file__).parent / "cases" / "match"
PROMPT = "The Prime Minister of Atlantis is"
SUBJECT, OFFICE = "Atlantis", "Prime Minister of Atlantis"
HOLDERS = tuple(
    Candidate(f"Q{number}", (label,), 20000101 + number)
    for number, label in enumerate(["Jens Stoltenberg", "Mette Frederiksen", "Łukasz Żółć", "Harald V of Atlantis"])
)


def cases() -> list[object]:
    found: list[object] = []
    for path in sorted(CASES.glob("*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                found.append(pytest.param(row, id=f"{path.stem}: {row['why']}: {row['text'][:40]!r}"))
    return found


def candidates(text: str) -> list[Candidate]:
    """Read "club:Real Madrid CF@2009; ...": class, label, year or day of the first term."""
    found = []
    for part in text.split("; "):
        name, _, day = part.rpartition("@")
        kind, _, label = name.rpartition(":")
        found.append(Candidate(label, (label,), int(day.ljust(8, "0")), None, kind or None))
    return found


@pytest.mark.parametrize("row", cases())
def test_cases(row: dict[str, str]) -> None:
    found = match(row["text"], row["prompt"], candidates(row["candidates"]), row["subject"], row["office"] or None)
    assert (found.entity or "", found.reason.value) == (row["expected"], row["reason"]), found


def ask(text: str, holders: tuple[Candidate, ...] = HOLDERS) -> str | None:
    return match(text, PROMPT, holders, SUBJECT, OFFICE).entity


def test_a_match_explains_itself() -> None:
    found = match("It is Mr. Stoltenberg.", PROMPT, HOLDERS, SUBJECT, OFFICE)
    assert found == ("Q0", Reason.MATCHED, 10, 21, "Stoltenberg", "Stoltenberg", "surname", 100.0)


def test_a_misspelt_name_has_its_score() -> None:
    found = match("Mette Frederickson", PROMPT, HOLDERS, SUBJECT, OFFICE)
    assert (found.entity, found.rule, found.alias) == ("Q1", "misspelt", "Mette Frederiksen")
    assert 85 <= found.score < 100


def test_labels_of_two_snapshots_name_one_entity() -> None:
    holder = Candidate("Q9", ("Al-Hilal SFC", "Al Hilal Saudi Football Club"), 20230101, None, "club")
    assert ask("Al Hilal Saudi FC", (holder,)) == ask("Al-Hilal", (holder,)) == "Q9"


def test_an_alias_is_found_by_entity_and_by_label() -> None:
    known = load_aliases()
    assert "PSG" in known["Paris Saint-Germain F.C."]
    assert "PSG" in known["Q483020"]
    assert ask("PSG", (Candidate("Q483020", ("Paris SG Club",), None, None, "club"),)) == "Q483020"


def test_the_digest_depends_on_names_and_days_and_not_on_order() -> None:
    other = HOLDERS[0]._replace(first_day=19990101)
    renamed = HOLDERS[0]._replace(labels=("Jens Stoltenberg", "J. S."))
    assert candidates_digest(HOLDERS) == candidates_digest(reversed(HOLDERS))
    assert len({candidates_digest([one]) for one in (HOLDERS[0], other, renamed)}) == 3


def test_no_candidates_match_nothing() -> None:
    assert match("Jens Stoltenberg", PROMPT, (), SUBJECT, OFFICE).reason is Reason.UNKNOWN


TEXTS = st.one_of(
    st.text(max_size=80),
    st.lists(
        st.sampled_from(
            [
                "Jens",
                "Stoltenberg",
                "Mette",
                "Frederiksen",
                "King",
                "Harald",
                "V",
                "not",
                "but",
                "is",
                "was",
                "held",
                "by",
                "the",
                "son",
                "of",
                ",",
                ".",
                "\n",
                "(",
                ")",
                "'",
                "s",
                "who",
                "[INST]",
                "[/INST]",
                "<|eot_id|>",
                "A.",
                "B.",
                "president",
                "of",
                "Atlantis",
                "former",
                "Mr.",
                "actually",
                "for",
                "plays",
                "team",
            ]
        ),
        max_size=14,
    ).map(" ".join),
)


@given(TEXTS, st.one_of(st.just(PROMPT), st.text(max_size=30)), st.sampled_from([None, "club", "national"]))
def test_it_never_raises_and_its_span_is_what_it_matched(text: str, prompt: str, team: str | None) -> None:
    holders = tuple(holder._replace(team_class=team) for holder in HOLDERS)
    found = match(text, prompt, holders, SUBJECT, OFFICE)
    assert len(found.matched) == found.end - found.start
    assert (found.entity is None) == (found.reason is not Reason.MATCHED) == (found.matched == "")


@given(TEXTS)
def test_the_matched_words_stand_in_the_text_at_the_span(text: str) -> None:
    found = match(text, PROMPT, HOLDERS, SUBJECT, OFFICE)
    if found.entity is not None:
        assert text[found.start : found.end] == found.matched


@given(st.sampled_from(["Stoltenberg", "Frederiksen", "Harald"]), st.text("abcxyz", min_size=1), st.text("abcxyz"))
def test_a_name_inside_a_longer_word_is_none(name: str, before: str, after: str) -> None:
    assert ask(f"{before}{name.lower()}{after}.") is None


@given(TEXTS, st.sampled_from("\u0301\u0306\u0308"), st.sets(st.integers(0, 80)))
def test_accents_change_nothing(text: str, accent: str, places: set[int]) -> None:
    plain = unicodedata.normalize("NFD", text)
    accented = "".join(sign + accent if at in places and sign.isascii() and sign.isalpha() else sign
                       for at, sign in enumerate(plain))  # fmt: skip
    if "[" in plain or "<" in plain:  # an accent within markup makes it no markup
        return
    assert ask(plain) == ask(accented) == ask(unicodedata.normalize("NFC", accented))


@given(st.text(max_size=30))
def test_folding_twice_is_folding_once(text: str) -> None:
    assert fold(fold(text)) == fold(text)
    assert all(text[word.start : word.end] and word.key for word in words(text))


@given(st.sampled_from(HOLDERS), st.text(max_size=60))
def test_what_follows_a_clear_answer_changes_nothing(holder: Candidate, more: str) -> None:
    plain = more.replace("<", " ").replace("[", " ").lower()
    if any(word.key in word_list("correction") | {"assistant", "user", "human", "model"} for word in words(plain)):
        return
    assert ask(f"{holder.labels[0]}.\n\nNote: {plain}") == holder.entity


@given(st.sampled_from(HOLDERS))
def test_case_changes_nothing(holder: Candidate) -> None:
    label = holder.labels[0]
    assert ask(label.upper()) == ask(label.lower()) == ask(label) == holder.entity


@given(st.permutations(PROMPT.split()))
def test_the_questions_own_words_name_nobody(mixed: list[str]) -> None:
    named = Candidate("Q5", ("Prime Atlantis",), 20100101)
    assert ask(" ".join(mixed), (*HOLDERS, named)) is None


@pytest.mark.parametrize("text", ["Jens " * 20_000, "not " * 20_000, "." * 100_000, "a. " * 20_000, '"Ab ' * 20_000])
def test_long_and_repeated_texts_are_read_too(text: str) -> None:
    assert ask(text) is None


def test_parameters_name_the_cutoffs_and_rapidfuzz() -> None:
    assert f"name>={CUTOFFS.name:g}" in PARAMETERS
    assert f"rapidfuzz={version('rapidfuzz')}" in PARAMETERS


def test_without_the_alias_file_a_club_is_not_known_by_its_nickname() -> None:
    club = (Candidate("Los Angeles Clippers", ("Los Angeles Clippers",), None, None, "club"),)
    assert match("the Clippers", "He plays for", club, "him", None).entity is not None
    assert match("the Clippers", "He plays for", club, "him", None, aliases=False).entity is None
