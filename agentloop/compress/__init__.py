"""Stage 7: claims from spans, and the pack that carries them."""
