//! The namespace of a volume, one operation per file, over an ordered key-value engine
