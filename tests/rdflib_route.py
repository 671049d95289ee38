"""The second route: the same queries on rdflib, an engine that shares no code with Oxigraph."""

from collections.abc import Iterator

import rdflib

from kg.store import Row


class RdflibGraph:
    """A snapshot's triples in rdflib; answers SELECT queries as `kg.store.Graph` asks."""

    def __init__(self, name: str, triples: bytes) -> None:
        self.name = name
        self._graph = rdflib.Graph().parse(data=triples.decode(), format="nt")

    def rows(self, text: str) -> Iterator[Row]:
        for solution in self._graph.query(text).bindings:
            yield {
                str(variable): term.toPython() if isinstance(term, rdflib.Literal) else str(term)
                for variable, term in solution.items()
            }
