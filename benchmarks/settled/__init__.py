"""Parts of ``worlds.py`` and ``rest.py``: what the shipped recipes make, and whether their scenes lie still."""
