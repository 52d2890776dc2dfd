//! A library in the place of NVIDIA's driver (`libcuda.so.1`) that interprets the kernels it is given, one
//! unit after the other, so that tests of CUDA run where there is no card: slowly, and with more checks than
//! a card makes. `README.md` beside it says how to start one.
//!
//! It knows the part of [PTX] that CubeCL's compiler writes, and the functions of the [driver] that it calls.
//! What it does not know is an error that names it.
//!
//! [PTX]: https://docs.nvidia.com/cuda/parallel-thread-execution/
//! [driver]: https://docs.nvidia.com/cuda/cuda-driver-api/

mod arithmetic;
mod driver;
mod instruction;
mod launch;
mod machine;
mod matrices;
mod parse;
#[cfg(test)]
mod tests;

pub use launch::Launch;
pub use parse::Kernel;
