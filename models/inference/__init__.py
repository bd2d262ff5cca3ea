"""Prediction: images to boxes, labels, masks, keypoints and poses."""
