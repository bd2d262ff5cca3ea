"""Parts of ``worlds.py``: what the shipped recipes make, and whether their scenes lie still."""
