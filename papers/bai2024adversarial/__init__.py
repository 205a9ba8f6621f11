"""[bai2024adversarial]: adversarial losses under central and local trust."""
