"""What every training shares: checkpoints that resume exactly, weight averages, weight files."""
