"""What the cards of the papers claim, number by number, and whether the committed results say so.

python -m papers.claims          lists every number that is false, unclaimed or quoted from nowhere
"""
