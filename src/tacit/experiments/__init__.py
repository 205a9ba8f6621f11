"""Runs, results, figures and reports."""
