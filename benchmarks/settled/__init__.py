"""Parts of ``worlds.py`` and ``rest.py``: checks of the samples and stability of the scenes of recipes."""
