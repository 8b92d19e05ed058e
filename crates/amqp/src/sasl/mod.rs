//! sasl
