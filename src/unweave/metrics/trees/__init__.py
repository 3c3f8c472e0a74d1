"""Decision trees: random forests and gradient boosting."""
