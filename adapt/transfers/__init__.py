"""Image transfers without a network: Reinhard, histogram matching, optimal transport, FDA."""
