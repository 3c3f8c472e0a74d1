"""Random forests and gradient-boosted trees."""
