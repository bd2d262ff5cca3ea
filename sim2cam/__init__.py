"""sim2cam: from simulated scenes to perception models that work on your camera."""

__version__ = "0.1.0"
