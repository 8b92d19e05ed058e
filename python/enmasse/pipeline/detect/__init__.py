"""Detection: `detectors` translates detectors of a document for the native core; it is pure."""
