"""sim2cam: turns simulated scenes into perception models that work on your camera."""

__version__ = "0.1.0"
