"""The renderers that are compared, one program each; none but sim2cam's own needs sim2cam."""
