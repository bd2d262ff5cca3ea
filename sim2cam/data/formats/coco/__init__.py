"""COCO object detection format (Lin et al. 2014)."""
