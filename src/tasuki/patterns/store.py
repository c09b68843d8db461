"""Holds no code. `tasuki.patterns` keeps its patterns in the place of this module's compiled file.

An installer removes the compiled files of all modules with them, and leaves any other file behind.
"""
