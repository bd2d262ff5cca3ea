"""Version of the package; modules import it from here, so that none imports the whole package."""

__version__ = "0.1.0"
