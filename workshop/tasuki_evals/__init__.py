"""Measure handoffs: the continuation benchmark, cases with planted facts, a judge, a
playground.
"""
