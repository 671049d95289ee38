"""The knowledge graph: dated snapshots of time-qualified statements, and the answer sets they give on any day.

Knows nothing of language models. Modules import only those named before them:
``errors resources terms dates sources snapshot identity store answers``.
"""
