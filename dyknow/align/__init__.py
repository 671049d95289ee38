"""Alignment: bring the outdated facts of a model up to date, and be able to undo it."""
