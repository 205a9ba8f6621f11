"""[he2025policy]: private policy gradients."""
