"""Fakes that tests share. Each has tests of its own."""
