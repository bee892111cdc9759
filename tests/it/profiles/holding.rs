//! What profiles hold, on its way.
