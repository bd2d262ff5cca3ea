"""YOLO format of Ultralytics."""
