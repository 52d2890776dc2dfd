//! The wrapper over a stand-in for cuDNN, built by a C compiler, which computes on the host's memory
//! (`stand_in.c`); and over the real cuDNN, without a GPU, up to plans (`real.rs`). No test has run
//! on a GPU.

// A shared library that a C compiler builds.
#![cfg(target_os = "linux")]

mod executing;
mod failing;
mod layers;
mod opening;
mod planning;
mod real;
mod reference;
mod stand_in;
