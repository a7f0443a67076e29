"""The tables and figures of the five papers that the library implements.

`python -m examples.papers` regenerates them; `docs/papers.md` says what came of it.
"""
