"""Pure mathematics on models: backward induction, evaluation, occupancy."""
