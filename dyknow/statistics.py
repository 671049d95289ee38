"""Intervals and tests that respect the data: a fact's phrasings and samples are one cluster."""
