"""Figures, measured in one run and told as ratios. Nothing here is a test: machines differ, assertions on time lie."""
