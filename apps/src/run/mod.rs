//! A run: how a trainer is put together from a recipe, and what becomes of it.

pub mod interrupt;
