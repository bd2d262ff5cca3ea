"""Samples to perception models: networks, losses, training, prediction."""
