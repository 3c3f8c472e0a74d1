"""The explorer: a latent space in the browser, and a page to share it."""
