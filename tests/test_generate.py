import random
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks import synthetic
from dyknow import benchmark, benchmarkfiles, facttable, generate, phrasings, strata
from dyknow.cli import cli
from dyknow.generate import Candidate, Plan, Rules
from dyknow.phrasings import Form
from kg import identity
from kg.errors import DataError, UsageError
from kg.snapshot import Snapshot, find_snapshots
from kg.store import open_store
from kg.terms import WD

WORDS = phrasings.load()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    return synthetic.write(tmp_path_factory.mktemp("made"), 150, seed=1)


@pytest.fixture(scope="module")
def found(made: Snapshot, tmp_path_factory: pytest.TempPathFactory) -> list[Candidate]:
    store = open_store(made, tmp_path_factory.mktemp("cache"))
    return generate.candidates(store, identity.load(), made.date)


def one(fact: str, **known: object) -> Candidate:
    subject, prop = fact.split("/")
    values: dict[str, object] = {
        "fact": fact,
        "subject": subject,
        "property": prop,
        "property_label": "chief",
        "label": f"Land {subject}",
    }
    values |= {"language": "en", "office": None, "changes": 2, "last_change": 20200101, "sitelinks": 3}
    return Candidate(**(values | {"classes": (), "region": None} | known))  # type: ignore[arg-type]


# --- what a snapshot has to draw from


def test_changes_are_those_of_the_statements(made: Snapshot, found: list[Candidate]) -> None:
    by_fact = defaultdict(set)
    for statement in made.statements():
        counts = statement.rank != "DeprecatedRank" and statement.team_class != "national" and statement.holder
        if counts and statement.start and statement.start[0] <= made.date:
            by_fact[f"{statement.subject.removeprefix(WD)}/{statement.property}"].add(statement.start[0])
    assert len(found) == 150 and sum(fact.changes for fact in found) > 300
    for fact in found:
        days = by_fact[fact.fact]
        assert fact.changes == max(len(days) - 1, 0)
        assert fact.last_change == (max(days) if len(days) > 1 else None)


def test_what_is_known_of_subjects_is_in_the_triples(made: Snapshot, found: list[Candidate]) -> None:
    lines = made.read_statements().decode().splitlines()
    counts = dict(line.split(" <http://wikiba.se/ontology#sitelinks> ") for line in lines if "#sitelinks>" in line)
    for fact in found:
        assert counts[f"<{WD}{fact.subject}>"].startswith(f'"{fact.sitelinks}"^^')
    assert {fact.language for fact in found} > {"en"} and all(fact.classes and fact.region for fact in found)
    assert len({fact.region for fact in found}) > 3


def test_properties_narrow_the_candidates(made: Snapshot, found: list[Candidate], tmp_path: Path) -> None:
    store = open_store(made, tmp_path)
    some = generate.candidates(store, identity.load(), made.date, {"P54", "P6"})
    assert some == [fact for fact in found if fact.property in {"P54", "P6"}] != []


def test_the_shipped_snapshots_can_be_drawn_from() -> None:
    newest = find_snapshots()[-1]
    found = generate.candidates(open_store(newest), identity.load(), newest.date)
    facts = {fact.fact: fact for fact in found}
    assert facts["Q38/P6"].changes > 20 and facts["Q38/P6"].sitelinks is None
    bench = generate.build("all", generate.draw(found, Plan(by=("property",))), WORDS)
    assert len(bench.facts) == len(found) > 100
    # The same ids as the study's, so that a run of either can be judged.
    assert len({fact.id for fact in bench.facts} & {fact.id for fact in benchmark.load().facts}) > 100
    texts = {question.text for question in bench.questions()}
    assert "The current Prime Minister of Italy is" in texts
    assert "The current chairperson of the International Olympic Committee is" in texts


# --- which facts may be drawn


@pytest.mark.parametrize(
    ("rules", "known", "reason"),
    [
        (Rules(), {}, None),
        (Rules(), {"label": None}, "without label"),
        (Rules(), {"label": "Q17"}, "without label"),
        (Rules(), {"label": " "}, "without label"),
        (Rules(min_changes=3), {}, "with fewer changes"),
        (Rules(min_changes=2), {}, None),
        (Rules(changed_from=20200101, changed_to=20200101), {}, None),
        (Rules(changed_from=20200102), {}, "last changed at another time"),
        (Rules(changed_to=20191231), {}, "last changed at another time"),
        (Rules(changed_to=20300101), {"last_change": None}, "last changed at another time"),
        (Rules(min_sitelinks=3, max_sitelinks=3), {}, None),
        (Rules(min_sitelinks=4), {}, "of another popularity"),
        (Rules(max_sitelinks=9), {"sitelinks": None}, "of another popularity"),
        (Rules(classes=frozenset({"Q515"})), {}, "of another class"),
        (Rules(classes=frozenset({"Q515"})), {"classes": ("Q1", "Q515")}, None),
    ],
)
def test_a_rule_keeps_a_fact_out(rules: Rules, known: dict[str, object], reason: str | None) -> None:
    assert rules.objection(one("Q1/P6", **known)) == reason


def test_an_ambiguous_name_is_one_of_two_subjects_with_one_property() -> None:
    facts = [one("Q1/P6", label="Springfield"), one("Q2/P6", label="springfield"), one("Q2/P35", label="Springfield")]
    kept, left_out = generate.allowed(facts, Rules())
    assert [fact.fact for fact in kept] == ["Q2/P35"]
    assert left_out == {"of an ambiguous name": 2}
    assert generate.allowed(facts, Rules(ambiguous=True)).facts == facts
    # The namesake counts though it may itself not be drawn.
    facts[1] = facts[1]._replace(changes=0)
    assert [fact.fact for fact in generate.allowed(facts, Rules(min_changes=1)).facts] == ["Q2/P35"]


# --- drawing


def some(count: int) -> list[Candidate]:
    chance = random.Random(5)
    return [
        one(f"Q{number}/{chance.choice(['P6', 'P6', 'P6', 'P54'])}", sitelinks=int(chance.paretovariate(0.7)) - 1)
        for number in range(1, count)
    ]


def test_a_draw_depends_on_facts_and_seed_alone() -> None:
    facts = some(300)
    first = generate.draw(facts, Plan(per_stratum=7))
    assert generate.draw(facts[::-1], Plan(per_stratum=7)) == first
    assert generate.draw(facts, Plan(per_stratum=7, seed=1)) != first
    larger = {one.name: set(one.drawn) for one in generate.draw(facts, Plan(per_stratum=12))}
    assert all(set(one.drawn) <= larger[one.name] for one in first)


def test_strata_are_by_what_was_asked_for() -> None:
    facts = some(300)
    for stratum in generate.draw(facts, Plan()):
        popularity, prop = stratum.name.split(" / ")
        own = [f for f in facts if strata.popularity_bin(f.sitelinks) == popularity and f.property == prop]
        assert (stratum.facts, set(stratum.drawn)) == (len(own), set(own))
    [everything] = generate.draw(facts, Plan(by=()))
    assert (everything.name, everything.facts) == ("all", len(facts))
    with pytest.raises(UsageError, match="colour"):
        generate.draw(facts, Plan(by=("colour",)))
    with pytest.raises(UsageError, match="No fact"):
        generate.draw([], Plan())


@pytest.mark.parametrize("size", [1, 5, 50, 123, 299, 1000])
@pytest.mark.parametrize("proportional", [False, True])
def test_a_size_is_met_as_evenly_as_can_be(size: int, proportional: bool) -> None:
    facts = some(300)
    drawn = generate.draw(facts, Plan(size=size, proportional=proportional))
    counts = [(len(one.drawn), one.facts) for one in drawn]
    assert sum(own for own, _ in counts) == min(size, len(facts))
    if proportional:
        assert all(abs(own - min(size, 299) * has / 299) < 1 for own, has in counts)
    else:
        most = max(own for own, _ in counts)
        assert all(own in (has, most, most - 1) for own, has in counts)


def test_bins_of_popularity_have_no_gap() -> None:
    for edges in (strata.EDGES, (1,), (7, 8), strata.edges_of("10, 1000")):
        names = [strata.popularity_bin(count, edges) for count in range(1200)]
        assert strata.in_order(names) == names
        assert len(set(names)) == len(edges) + 1
        for name, count in Counter(names).items():
            first, _, last = name.partition("-")
            assert name.endswith("+") or count == int(last or first) - int(first) + 1
    for wrong in ("", "5,1", "0", "a", "1,1"):
        with pytest.raises(UsageError):
            strata.edges_of(wrong)


# --- wording


@pytest.mark.parametrize(
    ("label", "language", "classes", "text"),
    [
        ("Italy", "en", (), "Italy is currently coached by"),
        ("Netherlands", "en", (), "The Netherlands is currently coached by"),
        ("United Arab Emirates", "en", (), "The United Arab Emirates is currently coached by"),
        ("Los Angeles Lakers", "en", ("Q13393265",), "The Los Angeles Lakers are currently coached by"),
        ("Miami Heat", "en", ("Q13393265",), "The Miami Heat is currently coached by"),
        ("Los Angeles Lakers", "en", (), "Los Angeles Lakers is currently coached by"),
        ("The Beatles", "en", ("Q215380",), "The Beatles are currently coached by"),
        ("The Hague", "en", (), "The Hague is currently coached by"),
        ("University of Oxford", "en", (), "The University of Oxford is currently coached by"),
        ("Harvard University", "en", (), "Harvard University is currently coached by"),
        ("the Vatican", "en", (), "The Vatican is currently coached by"),
        ("Federal Republic of Germany", "en", (), "The Federal Republic of Germany is currently coached by"),
        ("Bank of America", "en", (), "Bank of America is currently coached by"),
        ("Walt Disney Company", "en", (), "The Walt Disney Company is currently coached by"),
        ('"Weird Al" Yankovic', "en", (), '"Weird Al" Yankovic is currently coached by'),
        ("São Tomé Islands", "mul", (), "The São Tomé Islands is currently coached by"),
        ("Republic", "en", (), "Republic is currently coached by"),
        ("大阪市", "ja", (), "大阪市 is currently coached by"),
        ("Республика Islands", "mul", (), "Республика Islands is currently coached by"),
        ("Vereinigte Islands", "de", (), "Vereinigte Islands is currently coached by"),
        ("A {brace} United", "en", (), "A {brace} United is currently coached by"),
    ],
)
def test_a_subject_is_asked_with_its_grammar(label: str, language: str, classes: tuple[str, ...], text: str) -> None:
    fact = one("Q1/P286", label=label, language=language, classes=classes)
    bench = generate.build("x", generate.draw([fact], Plan()), WORDS)
    questions = {question.phrasing: question for question in bench.questions()}
    assert questions["2"].text == text
    span = questions["2"].subject_span
    assert span.of(text) == bench.facts[0].mention and bench.facts[0].subject_label == label


@pytest.mark.parametrize(
    ("fact", "known", "text"),
    [
        ("Q1/P26", {"label": "The Weeknd"}, "The Weeknd is currently married to"),
        ("Q1/P26", {"label": "United\n Kingdom"}, "United Kingdom is currently married to"),
        ("Q1/P138", {"label": "Lakers", "property_label": "named after"}, "Lakers is currently named after"),
        ("Q1/P138", {"label": "The Beatles", "property_label": "named after"}, "The Beatles is currently named after"),
        ("Q1/P138", {"property_label": "winner", "label": "World Cup"}, "For the World Cup, the winner is currently"),
    ],
)
def test_labels_of_people_and_of_properties_that_are_no_nouns(fact: str, known: dict[str, object], text: str) -> None:
    bench = generate.build("x", generate.draw([one(fact, **known)], Plan()), WORDS)
    [question] = [question for question in bench.questions() if question.phrasing == "2"]
    assert question.text == text and question.subject_span.of(text) == question.fact.mention
    for template in WORDS.default.relation:
        assert "current" in template.lower() and template.endswith("{property}")


def test_every_phrasing_ends_where_the_answer_begins() -> None:
    for wording in (*WORDS.by_property.values(), WORDS.default):
        assert len(wording.phrasings) == 3 and len(wording.office) in (0, 3)
        for template in (*wording.phrasings, *wording.office):
            assert "current" in template.lower()
            assert not any(sign in template for sign in "0123456789?.")
            assert not template.endswith((" ", "}", "the", "a"))
            for form in (Form(), Form(True), Form(True, True)):
                assert phrasings.expand(template, form, "label").count("{") == 1


def test_a_property_without_phrasings_is_asked_by_its_label() -> None:
    bench = generate.build("x", generate.draw([one("Q1/P9999", label="Netherlands")], Plan()), WORDS)
    assert [question.text for question in bench.questions()][:2] == [
        "The current chief of the Netherlands is",
        "For the Netherlands, the chief is currently",
    ]


def test_phrasings_of_one_s_own_are_added(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(
        '[[property]]\nid = "P6"\ngroup = "mayors"\ndomain = "cities"\nphrasings = ["Mayor of {subject}:"]\n'
    )
    own = phrasings.load(path)
    bench = generate.build("x", generate.draw([one("Q1/P6"), one("Q1/P54")], Plan()), own)
    assert next(question.text for question in bench.questions()) == "Mayor of Land Q1:"
    assert {fact.group for fact in bench.facts} == {"mayors", "players"}
    path.write_text('[[property]]\nid = "P6"\ngroup = "mayors"\ndomain = "cities"\nphrasings = ["Mayor:"]\n')
    with pytest.raises(DataError, match=r"line 5.*Mayor:"):
        phrasings.load(path)


# --- files


def test_both_files_hold_the_same_benchmark(found: list[Candidate], tmp_path: Path) -> None:
    bench = generate.build("näme", generate.draw(found, Plan(by=generate.DIVISIONS)), WORDS)
    assert len(bench.facts) == len(found)
    for name in ("b.toml", "b.parquet"):
        benchmarkfiles.write(bench, tmp_path / name, 'a "note"')
        read = benchmark.load(tmp_path / name)
        assert read == bench
        first = (tmp_path / name).read_bytes()
        benchmarkfiles.write(read, tmp_path / name, 'a "note"')
        assert (tmp_path / name).read_bytes() == first
    with pytest.raises(UsageError, match=r"b\.json"):
        benchmarkfiles.write(bench, tmp_path / "b.json", "")


ROW = {
    "group": "g", "domain": "d", "property": "P6", "subject": "Italy", "entity": "Q38",
    "phrasings": {"1": "{subject} is led by"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([{**ROW, "entity": "38"}], "row 1: 'entity' is '38'"),
        ([ROW, {**ROW, "entity": "Q38"}], "row 2: .*twice"),
        ([{**ROW, "subject": " Italy"}], "blanks"),
        ([{**ROW, "property": None}], "no property"),
        ([{**ROW, "confidence": "sure"}], "'sure'"),
        ([{**ROW, "phrasings": {"1": "{subjct} is"}}], "subjct"),
        ([{**ROW, "phrasings": {"1": "{office} is"}}], "row 1: .*office"),
        ([{**ROW, "phrasings": {}}], "no phrasing"),
        ([{**ROW, "phrasings": {"a b": "{subject} is"}}], "'a b'"),
        ([ROW, {**ROW, "entity": "Q1", "domain": "e"}], "'g' differ"),
        ([{**ROW, "domain": None}], "without group"),
        ([], "no fact"),
    ],
)
def test_a_wrong_table_is_refused(rows: list[dict[str, object]], words: str, tmp_path: Path) -> None:
    path = tmp_path / "b.parquet"
    facttable.write(path, "b", rows)
    with pytest.raises(DataError, match=words):
        benchmark.load(path)


def test_a_table_of_other_tools_is_read(tmp_path: Path) -> None:
    import duckdb  # noqa: PLC0415

    path = tmp_path / "mine.parquet"
    columns = (
        "'g' AS \"group\", 'd' AS domain, 'P6' AS property, 'Rome' AS subject, MAP {'1': '{subject} is'} AS phrasings"
    )
    duckdb.sql(f"COPY (SELECT {columns}) TO '{path}'")
    bench = benchmark.load(path)
    assert bench.name == "mine" and bench.questions()[0].text == "Rome is"
    assert bench.facts[0].id == "urn:dyknow:entity:Rome/P6" and bench.facts[0].confidence == "none"
    duckdb.sql(f"COPY (SELECT {columns}, 1 AS colour) TO '{path}'")
    with pytest.raises(DataError, match="colour"):
        benchmark.load(path)


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("'abc' AS sitelinks", r"row 2: 'sitelinks' is 'abc'"),
        ("-3 AS sitelinks", r"row 2: 'sitelinks' is -3"),
        ("2.5 AS sitelinks", r"row 2: 'sitelinks' is .*2\.5"),
        ("'x' AS phrasings", "'phrasings' is of type VARCHAR"),
        ("MAP {'1': 5} AS phrasings", "'phrasings' is of type MAP"),
        ("{'1': 5} AS phrasings", "the phrasing '1' of the group 'g' is 5"),
    ],
)
def test_a_table_of_other_types_is_refused_in_a_sentence(column: str, words: str, tmp_path: Path) -> None:
    import duckdb  # noqa: PLC0415

    path, said = tmp_path / "b.parquet", column.rpartition(" ")[2]
    facttable.write(path, "b", [ROW | {"sitelinks": 7}, {**ROW, "entity": "Q1", "sitelinks": 8}])
    first = "NULL" if said == "sitelinks" else column.rpartition(" AS ")[0]
    value = f"CASE file_row_number WHEN 0 THEN {first} ELSE {column.rpartition(' AS ')[0]} END AS {said}"
    duckdb.sql(f"COPY (SELECT * REPLACE ({value}) FROM read_parquet('{path}')) TO '{tmp_path / 'other.parquet'}'")
    with pytest.raises(DataError, match=words) as caught:
        benchmark.load(tmp_path / "other.parquet")
    assert "\n" not in caught.value.message and "Error" not in caught.value.message


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda whole: whole[: len(whole) // 2], "is cut off"),
        (lambda whole: whole[:30] + bytes(len(whole) - 60) + whole[-30:], "is damaged"),
        (lambda _: b"group,domain\n", "is no Parquet table"),
        (lambda _: b"", "is no Parquet table"),
        (lambda _: b"PAR1", "is cut off"),
    ],
)
def test_a_damaged_table_is_told_without_the_engine_s_words(
    damage: Callable[[bytes], bytes], words: str, tmp_path: Path
) -> None:
    path = tmp_path / "b.parquet"
    facttable.write(path, "b", [ROW])
    path.write_bytes(damage(path.read_bytes()))
    for command in ("check", "show"):
        done = CliRunner().invoke(cli, ["benchmark", command, str(path)])
        assert done.exit_code == 1 and len(done.stderr.splitlines()) <= 2
        assert f"{path} {words}" in done.stderr and "LINE 1" not in done.stderr


def test_popularity_in_a_file_changes_no_digest(tmp_path: Path) -> None:
    path = tmp_path / "b.toml"
    text = '[[group]]\nname = "g"\ndomain = "d"\nfacts = [{ subject = "Rome", property = "P6" }]\nphrasings = { 1 = "{subject} is" }\n'
    path.write_text(f'name = "b"\n{text}')
    plain = benchmark.load(path)
    path.write_text(f'name = "b"\n{text}'.replace('"P6"', '"P6", sitelinks = 7'))
    known = benchmark.load(path)
    assert (plain.facts[0].popularity, known.facts[0].popularity) == (None, "5-19")
    assert plain.digest == known.digest
    path.write_text(f'name = "b"\n{text}'.replace('"P6"', '"P6", sitelinks = -7'))
    with pytest.raises(DataError, match="line 5: 'sitelinks' is -7"):
        benchmark.load(path)


# --- checking


def test_what_makes_answers_hard_to_judge_is_found() -> None:
    facts = [
        one("Q1/P6", label="Springfield"), one("Q2/P6", label="springfield"), one("Q3/P6", label="Q3"),
        one("Q4/P6", label="Georgia", office="Head of Georgia"), one("Q5/P35", label="Georgia", office="Head of Georgia"),
    ]  # fmt: skip
    found = generate.findings(generate.build("x", generate.draw(facts, Plan()), WORDS))
    assert [(finding.kind, finding.facts) for finding in found] == [
        ("ambiguous label", ("Q1/P6", "Q2/P6")),
        ("no label", ("Q3/P6",)),
        ("same question", ("Q4/P6", "Q5/P35")),
    ]
    assert generate.findings(benchmark.load()) == []


# --- the commands


EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "extension.toml"


def test_the_command_draws_and_checks(made: Snapshot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    out = tmp_path / "b.parquet"
    run = CliRunner().invoke
    common = ["--snapshots", str(made.path.parent), "--known-at", made.id, "--format", "csv"]
    done = run(cli, ["benchmark", "generate", str(out), *common, "--per-stratum", "4", "--seed", "3"])
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    bench = benchmark.load(out)
    assert lines[0] == "stratum,facts,drawn" and sum(int(line.split(",")[2]) for line in lines[1:]) == len(bench.facts)
    assert Counter(fact.stratum for fact in bench.facts) == {
        line.split(",")[0]: int(line.split(",")[2]) for line in lines[1:]
    }
    assert "facts that may be drawn" in done.stderr
    assert run(cli, ["benchmark", "check", str(out)]).stdout.startswith(f"b: {len(bench.facts)} facts")
    again = run(cli, ["benchmark", "generate", str(out), *common, "--per-stratum", "4", "--seed", "3"])
    assert again.exit_code == 0 and benchmark.load(out) == bench
    mine = Path(shutil.copy(EXAMPLE, tmp_path / "mine.toml"))
    refused = run(cli, ["benchmark", "generate", str(mine), *common])
    assert refused.exit_code == 2 and "mine.toml is there already, and was not drawn" in refused.stderr
    assert mine.read_bytes() == EXAMPLE.read_bytes()
    twice = run(cli, ["benchmark", "generate", str(tmp_path / "t.toml"), *common, "--ambiguous", "--min-changes", "0"])
    assert twice.exit_code == 0
    checked = run(cli, ["benchmark", "check", str(tmp_path / "t.toml"), "--format", "csv"])
    assert checked.exit_code == (1 if generate.findings(benchmark.load(tmp_path / "t.toml")) else 0)
    for wrong in (
        ["--by", "colour"],
        ["--bins", "9,1"],
        ["--changed-from", "2020-01-01", "--changed-to", "2019-01-01"],
        ["--by", ""],
        ["--by", "property,property"],
        ["--proportional"],
    ):
        assert run(cli, ["benchmark", "generate", str(out), *common, *wrong]).exit_code == 2
    assert "strata have fewer facts than the 4 asked for" in done.stderr


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        (["--min-sitelinks", "3"], "on how many sites"),
        (["--max-sitelinks", "3"], "on how many sites"),
        (["--class", "Q5"], "what its subjects are instances of"),
    ],
)
def test_what_a_snapshot_does_not_know_cannot_be_asked_for(wish: list[str], words: str, tmp_path: Path) -> None:
    out = tmp_path / "b.toml"
    done = CliRunner().invoke(cli, ["benchmark", "generate", str(out), "--known-at", "2023-12-18", *wish])
    assert done.exit_code == 1 and f"Snapshot 2023-12-18 does not know {words}" in done.stderr
    assert "snapshot take" in done.stderr and not out.exists()


def test_strata_with_fewer_facts_than_asked_for_are_counted() -> None:
    facts = [one(f"Q{number}/{'P6' if number < 4 else 'P35'}") for number in range(1, 24)]
    for plan, words in (
        (Plan(("property",), per_stratum=5), "1 of 2 strata have fewer facts than the 5 asked for"),
        (Plan(("property",), size=10), "1 of 2 strata have fewer facts than an even share of 5"),
        (Plan(("property",), size=10, proportional=True), None),
        (Plan(("property",), per_stratum=3), None),
        (Plan(("property",)), None),
    ):
        said = generate.fewer(generate.draw(facts, plan), plan)
        assert said is None if words is None else said and said.startswith(words)
