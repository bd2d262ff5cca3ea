"""What is compared with: renderers, one program each, and published code; none but ours needs sim2cam."""
