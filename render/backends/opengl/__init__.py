"""Drawing by OpenGL without a display, on a GPU or in software."""
