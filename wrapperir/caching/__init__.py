"""Caches of one user: content-addressed files in directories that nobody else can write."""
