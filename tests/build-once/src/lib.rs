//! Empty: see the description in `Cargo.toml`.

#![forbid(unsafe_code)]
