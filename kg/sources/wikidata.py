"""Entity documents from Wikidata itself: today's, those of a past revision, and which revision stood on a day."""
