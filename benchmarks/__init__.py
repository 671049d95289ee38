"""Speed and memory, measured by hand: ``make bench``. Never a timed test."""
