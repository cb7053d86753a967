"""Real test failures, made by changing one thing in a published package and running its own tests."""
