"""Slow twins of the compiled core in plain Python: what the tests take for the truth.

Each is written for the eye, straight from the definition, and shares nothing with the C code it checks.
"""
