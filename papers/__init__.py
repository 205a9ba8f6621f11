"""The papers: one folder each, and one for the frontier: experiments as data, figures, the numbers of the cards.

Papers may import everything; nothing imports them but the command line.
"""
