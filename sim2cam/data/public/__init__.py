"""Download of public datasets."""
