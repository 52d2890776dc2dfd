//! Nothing: see the description in `Cargo.toml`.
