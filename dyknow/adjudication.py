"""Verdicts by people: doubtful answers first, out as a table or a form, and back in as judgments."""
