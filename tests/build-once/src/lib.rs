//! Empty: see the description in `Cargo.toml`.
