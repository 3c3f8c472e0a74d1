"""Published datasets: download, verify and read them."""
