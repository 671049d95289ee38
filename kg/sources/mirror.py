"""Statements in Wikidata's RDF, whatever brought them, as the rows of a snapshot."""
