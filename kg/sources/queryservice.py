"""Wikidata's query service: discovery, and statements in bulk, over SPARQL and HTTP."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import pyoxigraph as ox

from kg.errors import QueryError, SourceError
from kg.resources import query
from kg.sources import Triple
from kg.sources.canonical import canonical
from kg.sources.entity import Named
from kg.sources.mirror import ABOUT_SUBJECTS, Subject, needed
from kg.sources.rdf import StatementRdf
from kg.sources.rdfvalues import literal
from kg.sources.reviewed import team_classes
from kg.terms import RDFS_LABEL, SKOS_ALT, WD, WDREF, WDT, WDV, WIKIBASE, XSD, P

if TYPE_CHECKING:
    # Whoever asks brings the client; who only binds values does not wait for an HTTP library.
    from kg.sources.web import Web

ENDPOINT: Final = "https://query.wikidata.org/sparql"

SCHEMA: Final = "http://schema.org/"
REDIRECT_STEPS: Final = 5
"""How many redirects after one another are followed; Wikidata's bots mend double ones."""

Value = str | int | bool
Row = Mapping[str, Value]
"""A solution: variable to value. IRIs and strings are str, xsd:integer int, xsd:boolean bool; unbound is absent."""

Term = ox.NamedNode | ox.Literal | None
"""What may be bound: an IRI, a literal, or None for UNDEF."""

Solution = Mapping[str, Mapping[str, str]]
"""A solution as JSON results have it: variable to the parts of a term."""

INTEGERS: Final = frozenset(XSD + name for name in ("integer", "int", "long", "short", "nonNegativeInteger"))
"""xsd:integer and what engines make of it: QLever answers with xsd:int."""


def bind(text: str, variables: str, values: Sequence[Sequence[Term]]) -> str:
    r"""Fill every empty ``VALUES`` block over these variables; the terms are serialised by the RDF library.

    pyoxigraph's own ``substitutions`` goes silently wrong with sub-selects, and a VALUES block serves every engine.

    >>> bind("SELECT * { VALUES ?name { } }", "?name", [[ox.Literal('a "quote" } and >')]])
    'SELECT * { VALUES ?name { "a \\"quote\\" } and >" } }'

    Raises:
        QueryError: the text has no such block.
    """
    several = len(variables.split()) > 1
    head = f"({variables})" if several else variables
    block = re.compile(rf"VALUES\s+{re.escape(head)}\s*\{{\s*\}}")
    rows = (" ".join("UNDEF" if term is None else str(term) for term in row) for row in values)
    filled = " ".join(f"({row})" if several else row for row in rows)
    result, count = block.subn(lambda _: f"VALUES {head} {{ {filled} }}", text)
    if not count:
        raise QueryError(f"The query has no empty block VALUES {head} {{ }}.")
    return result


def plain(text: str, datatype: str | None) -> Value:
    """Return a literal as a plain value."""
    if datatype in INTEGERS:
        return int(text)
    return text in {"true", "1"} if datatype == XSD + "boolean" else text


def json_value(term: Mapping[str, str]) -> Value:
    """Return a term of a JSON result as a plain value."""
    return term["value"] if term["type"] in {"uri", "bnode"} else plain(term["value"], term.get("datatype"))


def ntriples_term(term: Mapping[str, str]) -> str:
    """Return a term of a JSON result as N-Triples writes it.

    >>> ntriples_term({"type": "literal", "value": "Rom", "xml:lang": "de"})
    '"Rom"@de'
    """
    if term["type"] == "uri":
        return f"<{term['value']}>"
    if term["type"] == "bnode":
        return f"_:{term['value']}"
    if language := term.get("xml:lang"):
        return f"{literal(term['value'])}@{language.lower()}"
    datatype = term.get("datatype", XSD + "string")
    return literal(term["value"]) + ("" if datatype == XSD + "string" else f"^^<{datatype}>")


def counted(text: str) -> str:
    """Return a query of ``queries/kg`` as one that counts its rows."""
    head, select, body = text.partition("\nSELECT ")
    return f"{head}\nSELECT (COUNT(*) AS ?rows) WHERE {{ {{{select}{body} }} }}"


def paged(text: str, limit: int, offset: int) -> str:
    """Return a query of ``queries/kg`` as one for a part of its rows, in an order that is the same for every part."""
    order = "" if "\nORDER BY" in text else f"\nORDER BY {_total_order(text)}"
    return f"{text}{order}\nLIMIT {limit} OFFSET {offset}"


def _total_order(text: str) -> str:
    # By text and language: engines order texts, but what else they order differs.
    selected = text.partition("\nSELECT ")[2].partition("\nWHERE")[0]
    names = re.findall(r"\?\w+", re.sub(r"\(.*?AS\s+(\?\w+)\)", r"\1", selected))
    return " ".join([*(f"STR({name})" for name in names), *(f"LANG({name})" for name in names)])


_BULK: Final = {"nodes": 10, "labels": 5, "other-labels": 5, "redirects": 5}
"""How many times as many values a query gets that has fewer rows for each."""


@dataclass(frozen=True)
class QueryService:
    """Wikidata as its query service, or another one of the same RDF, shows it now.

    Attributes:
        web: Sends the requests, and keeps the answers.
        endpoint: The address that takes queries.
        scope: Names the work: an answer stored for one scope is not taken for another.
        page: The most rows one query is asked for.
        bulk: How many facts one query asks for; a hundred have some ten thousand triples.
    """

    web: "Web"
    endpoint: str = ENDPOINT
    scope: str | None = ""
    page: int = 20_000
    bulk: int = 100

    @property
    def name(self) -> str:
        """The address, for the reader of a result."""
        return self.endpoint

    def rows(self, text: str) -> Iterator[Row]:
        """Yield the solutions of a SELECT query, asked as it stands.

        Raises:
            QueryError: it is not a SELECT.
            SourceError: the service cannot be reached, refuses the query, or answers wrongly.
        """
        return iter(self._plain(self._solutions(text, self.scope)))

    def select(self, name: str, variables: str, values: Sequence[Sequence[Term]]) -> list[Row]:
        """Run ``queries/kg/NAME.rq`` with ``values`` bound to ``variables``, in parts, and return all its solutions.

        Raises:
            SourceError: the service cannot be reached, answers wrongly, or gives other than it counted.
        """
        return self._plain(self._whole(name, variables, values))

    def subjects(self, wanted: Mapping[str, Collection[str]]) -> list[Subject]:
        """Return the subjects with their statements of the wanted properties, and of those that name their offices.

        A subject the service does not have is left out.

        Args:
            wanted: properties by the id of a subject.

        Raises:
            SourceError: the service cannot be reached, answers wrongly, or gives other than it counted.
        """
        leads = self._redirects(wanted)
        claims = {(leads[asked], prop) for asked, props in wanted.items() for prop in needed(props)}
        by_subject: dict[str, list[StatementRdf]] = defaultdict(list)
        for statement in canonical(self._triples(claims)):
            by_subject[statement.subject].append(statement)
        about = self._about(leads.values())
        found = []
        for asked, item in sorted(leads.items()):
            if item not in about and item not in by_subject:
                continue
            known, props = about.get(item, _About()), needed(wanted[asked])
            own = [statement for statement in by_subject[item] if statement.property in props]
            about_it = (known.label, own, known.revision, known.modified, known.sitelinks, known.about_subject)
            found.append(Subject(asked, item, *about_it))
        return found

    def names(self, ids: Collection[str]) -> dict[str, Named]:
        """Return what a snapshot says of entities that are values, by the id asked for; unknown ones are left out.

        Raises:
            SourceError: the service cannot be reached, answers wrongly, or gives other than it counted.
        """
        leads = self._redirects(ids)
        about = self._about(leads.values())
        return {
            asked: Named(asked, item, known.label, known.aliases, known.items, known.died)
            for asked, item in sorted(leads.items())
            if (known := about.get(item)) is not None
        }

    def teams(self, ids: Collection[str]) -> dict[str, str]:
        """Return the class of each team, "national", "racing" or "club", by all that it is a kind of.

        A national team is one whatever else it is. A team of no class in the reviewed table is left out.

        Raises:
            SourceError: the service cannot be reached, answers wrongly, or gives other than it counted.
        """
        found: dict[str, set[str]] = defaultdict(set)
        for row in self.select("team-classes", "?team", _nodes(ids)):
            if team_class := team_classes().get(str(row["super"]).removeprefix(WD)):
                found[str(row["team"]).removeprefix(WD)].add(team_class)
        return {team: next(c for c in ("national", "racing", "club") if c in own) for team, own in found.items()}

    def _plain(self, solutions: Iterable[Solution]) -> list[Row]:
        try:
            return [_plain_row(solution) for solution in solutions]
        except (KeyError, TypeError, ValueError) as error:
            raise SourceError(f"{self.endpoint} gives a value that cannot be read: {error}.") from error

    # Statements

    def _triples(self, claims: Iterable[tuple[str, str]]) -> Iterator[Triple]:
        """Yield all triples of the statements of (subject, property) pairs, with those of the nodes they lead to."""
        values = [[ox.NamedNode(WD + item), ox.NamedNode(P + prop)] for item, prop in sorted(claims)]
        nodes: set[str] = set()
        for row in self._whole("statements", "?subject ?claim", values):
            statement = ntriples_term(row["statement"])
            yield ntriples_term(row["subject"]), ntriples_term(row["claim"]), statement
            yield statement, ntriples_term(row["predicate"]), ntriples_term(row["value"])
            nodes |= _leading(row["value"])
        seen: set[str] = set()
        while nodes - seen:  # references lead to further value nodes
            asked, nodes = nodes - seen, set()
            seen |= asked
            named = [[ox.NamedNode(node)] for node in sorted(asked)]
            for row in self._whole("nodes", "?node", named):
                yield ntriples_term(row["node"]), ntriples_term(row["predicate"]), ntriples_term(row["value"])
                nodes |= _leading(row["value"])

    # Entities

    def _redirects(self, ids: Iterable[str]) -> dict[str, str]:
        """Return where each id leads, to itself where it is no redirect."""
        leads = {asked: asked for asked in ids}
        for _ in range(REDIRECT_STEPS):
            rows = self.select("redirects", "?item", _nodes(set(leads.values())))
            pairs = {str(row["item"]).removeprefix(WD): str(row["target"]).removeprefix(WD) for row in rows}
            if not pairs:
                return leads
            leads = {asked: pairs.get(item, item) for asked, item in leads.items()}
        raise SourceError(f"{self.endpoint} has redirects that lead to no end, for {min(pairs)} among others.")

    def _about(self, ids: Iterable[str]) -> "dict[str, _About]":
        values = _nodes(set(ids))
        terms: dict[str, dict[str, list[Mapping[str, str]]]] = defaultdict(lambda: defaultdict(list))
        for row in self._whole("labels", "?item", values):
            terms[row["item"]["value"]][row["predicate"]["value"]].append(row["value"])
        nameless = [value for value in values if RDFS_LABEL not in terms.get(value[0].value, {})]
        for row in self._whole("other-labels", "?item", nameless):
            terms[row["item"]["value"]][RDFS_LABEL].append(row["label"])
        return {iri.removeprefix(WD): _read_about(own) for iri, own in terms.items()}

    # Asking

    def _whole(self, name: str, variables: str, values: Sequence[Sequence[Term]]) -> Iterator[Solution]:
        """Yield the solutions of a query in parts; each is checked against a count before it is yielded."""
        text, bulk = query(f"kg/{name}.rq"), self.bulk * _BULK.get(name, 1)
        for start in range(0, len(values), bulk):
            yield from self._part(text, variables, values[start : start + bulk])

    def _part(self, text: str, variables: str, values: Sequence[Sequence[Term]]) -> list[Solution]:
        """Return the solutions for some values; where the service runs out of time, those of each half."""
        try:
            return self._checked(bind(text, variables, values))
        except SourceError as error:
            # What was asked for in halves when there was a network is stored in halves.
            if error.kind not in {"time-out", "offline"} or len(values) == 1:
                raise
        half = len(values) // 2
        return [*self._part(text, variables, values[:half]), *self._part(text, variables, values[half:])]

    def _checked(self, text: str) -> list[Solution]:
        """Return as many different solutions as the service counts."""
        counts: tuple[int, int] = (0, 0)
        for again in ("", " again", " and again"):  # the service may have been changed between count and answer
            scope = None if self.scope is None else self.scope + again
            expected = self._count(text, scope)
            if expected <= self.page:
                found = self._solutions(text, scope) if expected else []
            else:
                parts = [paged(text, self.page, offset) for offset in range(0, expected, self.page)]
                found = [solution for part in parts for solution in self._solutions(part, scope)]
            counts = expected, len({_key(solution) for solution in found})
            if counts[1] == expected == len(found):
                return found
        raise SourceError(
            f"{self.endpoint} counts {counts[0]} rows and gives {counts[1]}, three times over.",
            hint="Is it being updated? Try again later.",
        )

    def _count(self, text: str, scope: str | None) -> int:
        try:
            return int(self._solutions(counted(text), scope)[0]["rows"]["value"])
        except (IndexError, KeyError, TypeError, ValueError) as error:
            raise SourceError(f"{self.endpoint} answers a count with no number.") from error

    def _solutions(self, text: str, scope: str | None) -> list[Solution]:
        answer = self.web.post_sparql(self.endpoint, text, scope)
        if "results" not in answer:
            raise QueryError("The query is not a SELECT.", hint="Use SELECT for rows.")
        return list(answer["results"]["bindings"])


class _About(NamedTuple):
    """What the service says of one entity."""

    label: tuple[str, str] | None = None
    aliases: tuple[tuple[str, str], ...] = ()
    items: tuple[str, ...] = ()
    died: tuple[str, ...] = ()
    revision: int | None = None
    modified: str | None = None
    sitelinks: int | None = None
    about_subject: tuple[tuple[str, str], ...] = ()  # property and item


def _read_about(terms: Mapping[str, Sequence[Mapping[str, str]]]) -> _About:
    labels = {term["xml:lang"]: term["value"] for term in terms.get(RDFS_LABEL, ()) if term["value"].strip()}
    language = next((name for name in ("en", "mul", *sorted(labels)) if name in labels), None)
    label = None if language is None else (labels[language], language)
    others = {(term["value"], term["xml:lang"]) for term in terms.get(SKOS_ALT, ()) if term["value"].strip()}
    versions = [int(term["value"]) for term in terms.get(SCHEMA + "version", ())]
    return _About(
        label=label,
        aliases=tuple(sorted(others - {label})),
        items=_items(terms, "P31"),
        died=tuple(sorted(_texts(terms, WDT + "P570", None))),
        revision=max(versions, default=None),
        modified=max(_texts(terms, SCHEMA + "dateModified", None), default=None),
        sitelinks=max((int(term["value"]) for term in terms.get(WIKIBASE + "sitelinks", ())), default=None),
        about_subject=tuple((prop, item) for prop in ABOUT_SUBJECTS for item in _items(terms, prop)),
    )


def _items(terms: Mapping[str, Sequence[Mapping[str, str]]], prop: str) -> tuple[str, ...]:
    """Return the items that the best statements of a property name, sorted."""
    return tuple(sorted(name for name in _texts(terms, WDT + prop, WD) if name.startswith("Q")))


def _texts(terms: Mapping[str, Sequence[Mapping[str, str]]], predicate: str, prefix: str | None) -> Iterator[str]:
    """Yield the literals, or the names of IRIs with the prefix; an unknown value is neither."""
    for term in terms.get(predicate, ()):
        is_iri = term["type"] in {"uri", "bnode"}
        if prefix is None and not is_iri:
            yield term["value"]
        elif prefix is not None and is_iri and term["value"].startswith(prefix):
            yield term["value"].removeprefix(prefix)


def _plain_row(solution: Solution) -> Row:
    return {name: json_value(term) for name, term in solution.items()}


def _key(solution: Solution) -> tuple[tuple[str, ...], ...]:
    return tuple((name, *sorted(term.items())) for name, term in sorted(solution.items()))  # type: ignore[arg-type]


def _leading(value: Mapping[str, str]) -> set[str]:
    """Return the value where it is a node that says more: a reference, or the parts of a value."""
    is_node = value["type"] == "uri" and value["value"].startswith((WDV, WDREF))
    return {value["value"]} if is_node else set()


def _nodes(ids: Collection[str]) -> list[list[ox.NamedNode]]:
    return [[ox.NamedNode(WD + name)] for name in sorted(ids)]
