"""A language model as a judge: it is asked whom a text names, and what it said is kept."""
