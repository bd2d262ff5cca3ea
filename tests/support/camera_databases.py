"""Small databases in the formats of darktable and Lensfun, with invented cameras and lenses."""

from __future__ import annotations

import json
from pathlib import Path

NOISE_ROWS = [
    {"name": "A iso 100", "iso": 100, "a": [8e-6, 4e-6, 6e-6], "b": [9e-8, 2e-8, 5e-8]},
    {"name": "A iso 800", "iso": 800, "a": [6e-5, 3e-5, 5e-5], "b": [4e-7, -1e-7, 3e-7]},
    {"name": "A iso 900", "iso": 900, "a": [9e-5, 9e-5, 9e-5], "b": [0, 0, 0], "skip": True},
]
NOISE = {
    "version": 0,
    "noiseprofiles": [
        {"maker": "Acme", "models": [{"model": "One", "comment": "none", "profiles": NOISE_ROWS}]},
        {
            "maker": "Bolt",
            "models": [{"model": "B-2", "profiles": [NOISE_ROWS[1] | {"iso": 1600}]}],
        },
    ],
}

_LENS = """
  <lens>
    <maker>{maker}</maker>
    <model>{model}</model>
    <model lang="en">other name</model>
    <mount>Mine</mount>
    <cropfactor>{crop}</cropfactor>
    {extra}
    <calibration>
      <distortion {distortion} focal="{focal}"/>
      <tca {tca} focal="{focal}"/>
      <vignetting model="pa" focal="{focal}" aperture="2.8" distance="10" k1="-0.5" k2="0.2" k3="-0.1"/>
      <vignetting model="pa" focal="{focal}" aperture="8" distance="10" k1="-0.2" k2="0.05" k3="0"/>
    </calibration>
  </lens>"""
LINEAR = 'model="linear" kr="1.0005" kb="0.9996"'
POLY3 = 'model="poly3" vr="1.0002" vb="0.9999" br="-0.00005" bb="0.00004"'


def format_lens(
    model: str,
    distortion: str,
    *,
    maker: str = "Acme",
    crop: float = 1.5,
    focal: float = 24,
    tca: str = LINEAR,
    extra: str = "",
) -> str:
    """Return a lens in Lensfun's XML."""
    return _LENS.format(
        model=model, distortion=distortion, maker=maker, crop=crop, focal=focal, tca=tca, extra=extra
    )  # fmt: skip


LENSES = (
    format_lens("Pt 24", 'model="ptlens" a="0.01" b="-0.04" c="0.02"', tca=POLY3),
    format_lens("Poly3 28", 'model="poly3" k1="-0.03"', focal=28),
    format_lens("Poly5 5", 'model="poly5" k1="-0.02" k2="0.004"', crop=6.0, focal=5.5,
                extra="<aspect-ratio>4:3</aspect-ratio>"),
)  # fmt: skip
LEFT_OUT = (
    format_lens("Fish 24", 'model="poly3" k1="-0.03"', extra="<type>fisheye</type>"),
    format_lens("Off 24", 'model="poly3" k1="-0.03"', extra='<center x="0.1" y="0"/>'),
)


def format_lens_database(lenses: tuple[str, ...]) -> str:
    """Return a database in Lensfun's XML with a camera for its mount."""
    mount = "<mount><name>Mine</name></mount>"
    camera = "<camera><maker>Acme</maker><model>One</model><mount>Mine</mount><cropfactor>1.5</cropfactor></camera>"
    return f'<lensdatabase version="1">{mount}{camera}{"".join(lenses)}</lensdatabase>'


def write_databases(folder: Path, *more_lenses: str) -> Path:
    """Write both databases where the system has them; return the folder for ``XDG_DATA_DIRS``."""
    noise, lenses = folder / "darktable/noiseprofiles.json", folder / "lensfun/version_1/mine.xml"
    for path in (noise, lenses):
        path.parent.mkdir(parents=True)
    noise.write_text(json.dumps(NOISE))
    lenses.write_text(format_lens_database((*LENSES, *LEFT_OUT, *more_lenses)))
    return folder
