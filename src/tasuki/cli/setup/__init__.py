"""Commands that set tasuki up or serve other programs."""
