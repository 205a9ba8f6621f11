"""Claims, events, composition, calibration, ledger: it sees descriptions, never data."""
