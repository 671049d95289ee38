"""The benchmark: ask models, match their texts to entities, judge them for any date.

Modules import only those named before them:
``benchmark prompts models run published match results analysis report cli``.
"""
