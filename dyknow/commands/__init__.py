"""The commands, one module for each room: ``graph asking judging pages``; ``common`` is what they share.

A command parses, calls one function of the library, and prints.
"""
