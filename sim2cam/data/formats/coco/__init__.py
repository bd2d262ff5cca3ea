"""COCO object detection (Lin et al. 2014)."""
