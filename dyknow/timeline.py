"""The share of answers that are up-to-date as a function of the as-of date, and the years they stem from."""
