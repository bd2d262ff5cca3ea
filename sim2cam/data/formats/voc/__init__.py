"""Pascal VOC (Everingham et al. 2010)."""
