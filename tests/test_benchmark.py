import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dyknow import benchmark
from dyknow.benchmark import load
from dyknow.tomlfile import Locations
from kg import answers, identity
from kg.errors import DataError
from kg.snapshot import find_snapshots
from kg.sources import table
from kg.store import open_store

REPO = Path(__file__).resolve().parents[1]

GOOD = """\
name = "small"

[[group]]
name = "singers"
domain = "people"
facts = [
  { subject = "Taylor Swift", entity = "Q26876", property = "P451" },
]

[group.phrasings]
1 = "The current partner of {subject} is"
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_study_has_98_subjects_130_facts_and_390_questions() -> None:
    study = load()
    facts = {"countries": 78, "athletes": 28, "organizations": 24}
    subjects = {"countries": 47, "athletes": 28, "organizations": 23}
    assert {d: sum(f.domain == d for f in study.facts) for d in facts} == facts
    assert {d: len({f.subject for f in study.facts if f.domain == d}) for d in subjects} == subjects
    assert len(study.facts) == 130
    assert len(study.questions()) == 390
    assert len({question.id for question in study.questions()}) == 390
    groups = {"countries": 78, "footballers": 10, "basketball": 9, "drivers": 9, "companies": 18}
    assert {g: sum(f.group == g for f in study.facts) for g in groups} == groups


def test_every_fact_of_the_handed_file_is_asked(shared: Path) -> None:
    import csv  # noqa: PLC0415

    with (shared / "wikidata-ids.csv").open(encoding="utf-8", newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if "[office item]" not in row["attribute"]]
    by_key = {(fact.subject_label, fact.property): fact for fact in load().facts}
    assert len(rows) == len(by_key) == 130
    for row in rows:
        fact = by_key[row["subject"], row["property"]]
        assert fact.subject == row["qid"] or (not row["qid"] and fact.subject.startswith("urn:dyknow:entity:"))
        assert fact.confidence == row["confidence"].replace("unverified", "none")
        if row["domain"].startswith("countries"):
            assert fact.office is not None
            assert fact.office.lower() == row["attribute"].lower()


def test_no_phrasing_is_the_handed_file_s(shared: Path) -> None:
    text = (shared / "published" / "answers-2023-12-18.json").read_text(encoding="utf-8")
    assert [q.text for q in load().questions() if f'"{q.text}"' in text] == []


def test_spans_are_the_subject_and_the_office() -> None:
    for question in load().questions() + load().questions(prefix=True):
        fact = question.fact
        assert question.subject_span.of(question.text) == fact.mention
        assert (question.office_span and question.office_span.of(question.text)) == fact.office


def test_only_three_countries_are_named_otherwise_than_by_their_label() -> None:
    other = {fact.subject_label for fact in load().facts if fact.mention != fact.subject_label}
    assert other == {"United States of America", "France", "Belgium"}


def test_no_phrasing_has_a_digit_or_a_date() -> None:
    dated = re.compile(r"\d|\b(?:today|now|year|month|day|date|as of|nowadays|recent|latest)\b", re.IGNORECASE)
    for templates in load().phrasings.values():
        assert list(templates) == ["1", "2", "3"]
        for template in templates.values():
            assert not dated.search(template), template
            assert "current" in template.lower()
            assert re.search(r"(?:is|for|in)$", template)


def test_athletes_are_asked_for_clubs() -> None:
    assert {fact.asks for fact in load().facts if fact.property == "P54"} == {"club"}


def test_an_entity_without_an_id_goes_by_its_label() -> None:
    unknown = {fact.subject for fact in load().facts if not fact.subject.startswith("Q")}
    assert "urn:dyknow:entity:Cencora%2C%20Inc." in unknown
    assert len(unknown) == 3


def test_the_extension_needs_no_code() -> None:
    (question,) = load(REPO / "examples" / "extension.toml").questions()
    assert question.id == "Q26876/P451#1"
    assert question.subject_span.of(question.text) == "Taylor Swift"


def test_the_extension_has_facts_to_be_scored_by() -> None:
    (fact,) = load(REPO / "examples" / "extension.toml").facts
    rows = table.read(REPO / "examples" / "extension-facts.csv").rows
    assert {f"{row.subject_id}/{row.property}" for row in rows} == {fact.id}
    assert {row.subject for row in rows} == {fact.subject_label}


def test_the_shipped_snapshot_has_the_study_s_facts_under_the_same_ids() -> None:
    (snapshot,) = (found for found in find_snapshots() if found.id == "2023-12-18")
    in_graph = answers.facts(open_store(snapshot), identity.load())
    assert set(in_graph) == {fact.id for fact in load().facts}


def test_the_prefix_goes_before_and_moves_the_spans() -> None:
    plain, prefixed = load().questions()[0], load().questions(prefix=True)[0]
    assert prefixed.text == "Answer with the name only. " + plain.text
    assert prefixed.id == plain.id


@pytest.mark.parametrize(
    ("old", "new", "line", "words", "hint"),
    [
        ("subject =", "subjct =", 7, "'subjct'", "Did you mean 'subject'?"),
        ("domain =", "domian =", 5, "'domian'", "Did you mean 'domain'?"),
        ('name = "small"', 'nam = "small"', 1, "'nam'", "Did you mean 'name'?"),
        ("{subject} is", "{subjct} is", 11, "{subjct}", "Did you mean 'subject'?"),
        ("{subject} is", "she is", 11, "neither", "subject"),
        ("{subject} is", "{subject is", 11, "neither", "subject"),
        ("{subject} is", "{subject}} is", 11, "brace", "alone"),
        ("{subject} is", "{subject} as {office} is", 7, "Taylor Swift", "office"),
        ("{subject} is", "{office} is", 7, "Taylor Swift", "office"),
        ('"Taylor Swift"', "13", 7, "13", "quotes"),
        ('"Taylor Swift"', '" "', 7, "blanks", ""),
        ('"Q26876"', '"26876"', 7, "'26876'", "Wikidata"),
        ('"P451"', '"p451"', 7, "'p451'", "Wikidata"),
        (', property = "P451"', "", 7, "property", "Add"),
        ('"P451" },', '"P451" },\n{ subject = "T. S.", entity = "Q26876", property = "P451" },', 8, "line 7", ""),
        ('"P451" },', '"P451", confidence = "verfied" },', 7, "'verfied'", "Did you mean 'verified'?"),
        ("1 = ", '"a#b" = ', 11, "'a#b'", "Letters"),
        ('is"\n', 'is"\n\n[[group]]\nname = "singers"\n', 14, "twice", ""),
        ('domain = "people"\n', "", 6, "'domain'", "Add"),
    ],
)
def test_a_mistake_is_named_with_file_line_and_value(
    tmp_path: Path, *, old: str, new: str, line: int, words: str, hint: str
) -> None:
    assert old in GOOD
    path = write(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(DataError) as caught:
        load(path)
    expected = line if old != 'domain = "people"\n' else 3  # what is missing has no line: that of its table
    assert caught.value.message.startswith(f"{path}, line {expected}: ")
    assert words in caught.value.message
    assert hint in (caught.value.hint or "")


def test_a_file_that_is_no_toml_is_named_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"small\.toml is no TOML: .*line 2"):
        load(write(tmp_path, 'name = "x"\nname = "y"\n'))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        load(tmp_path / "none.toml")


def test_the_digest_is_that_of_the_content(tmp_path: Path) -> None:
    digest = load(write(tmp_path, GOOD)).digest
    assert load(write(tmp_path, "# a remark\n" + GOOD.replace("domain =", "domain    ="))).digest == digest
    assert load(write(tmp_path, GOOD.replace("partner", "spouse"))).digest != digest
    assert load(write(tmp_path, GOOD.replace("Q26876", "Q1"))).digest != digest


def test_the_prompts_digest_ignores_order_and_knows_the_prefix() -> None:
    questions = load().questions()
    assert benchmark.prompts_digest(questions[::-1]) == benchmark.prompts_digest(questions)
    assert benchmark.prompts_digest(load().questions(prefix=True)) != benchmark.prompts_digest(questions)


@given(st.text(min_size=1).filter(lambda text: text == text.strip() and "\x00" not in text))
def test_any_subject_survives(tmp_path_factory: pytest.TempPathFactory, subject: str) -> None:
    quoted = "".join(f"\\U{ord(char):08X}" for char in subject)
    path = write(tmp_path_factory.mktemp("any"), GOOD.replace("Taylor Swift", quoted))
    (question,) = load(path).questions(prefix=True)
    assert question.fact.subject_label == subject
    assert question.subject_span.of(question.text) == subject
    assert question.text.endswith(f"The current partner of {subject} is")


TRICKY = '''\
# [not] = "a table"
"a b".c = """one
two = 3
""""
d = [ # remark ]
  [1, 2.5], { e = "}", 'f' = '#' },
]
[t."x.y"]
k = 1979-05-27T07:32:00Z
[[u.v]]
k = true
[[u.v]]
[[u.v.w]]
k = """x\\""""
'''


def test_the_walk_sees_what_the_parser_sees() -> None:
    locations = Locations(TRICKY)
    assert set(_leaves(tomllib.loads(TRICKY))) <= set(locations.lines)
    assert locations.line("a b", "c") == 2
    assert locations.line("d", 1, "f") == 6
    assert locations.line("t", "x.y", "k") == 9
    assert locations.line("u", "v", 1, "w", 0, "k") == 14
    assert locations.line("u", "v", 1, "nowhere") == 12


def _leaves(value: object, place: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    if isinstance(value, dict):
        return [leaf for key, item in value.items() for leaf in _leaves(item, (*place, key))]
    if isinstance(value, list):
        return [leaf for key, item in enumerate(value) for leaf in _leaves(item, (*place, key))]
    return [place]
