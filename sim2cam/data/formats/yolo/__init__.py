"""YOLO labels as Ultralytics writes them."""
