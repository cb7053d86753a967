"""The five tasks: what each makes of a ranking."""
