"""What in a snapshot deserves a doubt: a wrong answer set may be Wikidata's fault."""
