"""Compared renderers, one program each, and published code; only our renderer needs sim2cam."""
