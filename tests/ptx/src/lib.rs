//! A library that replaces NVIDIA's driver (`libcuda.so.1`) and interprets its kernels, one unit
//! after the other, so that tests of CUDA run without a GPU: slowly, and with more checks than a
//! GPU makes. `README.md` describes how to start one.
//!
//! It supports the part of [PTX] that CubeCL's compiler writes, and the functions of the [driver]
//! that it calls. Anything else is an error that names it.
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
