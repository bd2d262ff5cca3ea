"""Pascal VOC format (Everingham et al. 2010)."""
