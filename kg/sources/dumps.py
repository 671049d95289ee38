"""Wikidata's JSON dumps, streamed on all cores: only lines that can hold a wanted property are parsed."""
