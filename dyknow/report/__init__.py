"""The report: one HTML page, or Markdown, CSV and figures in files, of what models answered and how that ages.

``gather`` reads the results, ``tables`` works out the rates of every date, ``page.render`` and ``formats`` write. What
is gathered depends on no day; verdicts for a day are made of it by ``rates``, and in the page by its script.
"""
