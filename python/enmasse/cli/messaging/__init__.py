"""Sending and receiving."""
