"""Zip archives in memory."""

import io
import zipfile


def pack(files):
    """Return a zip archive of files by name."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return data.getvalue()
