"""Blood glucose of virtual people with type 1 diabetes: a compiled twin of the published UVA/Padova model."""
