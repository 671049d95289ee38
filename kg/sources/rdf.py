"""Statements of Wikidata's JSON as the triples that Wikidata's own RDF has for them."""
