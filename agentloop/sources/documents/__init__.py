"""Documents: text of files whose bytes are no plain text, or whose markup hides it."""
