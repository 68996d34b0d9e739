"""Layers and functions that adapters are made of."""
