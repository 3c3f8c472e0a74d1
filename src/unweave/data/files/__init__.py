"""Datasets read from files: arrays, tables, folders of images."""
