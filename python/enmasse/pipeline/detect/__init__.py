"""Detection: `detectors` judges readings, one device after another; it is pure."""
