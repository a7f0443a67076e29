"""Rows that are stored elsewhere, and come in cells of space or in parts."""
