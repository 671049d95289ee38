"""Wikidata's query service: discovery, and statements in bulk, over SPARQL and HTTP."""
