"""Figures over time: context use, tokens and cost as harnesses report them, and what agents did when."""
