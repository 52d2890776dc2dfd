//! Export of networks as ONNX models, for deployment in other programs.
//!
//! ```
//! # use burn::tensor::Device;
//! # use hearth_nn::networks::UNetConfig;
//! # use hearth_nn::trace::trace;
//! let net = UNetConfig::new(3, 1, 2, &[4, 8], &[2]).init(&Device::default(), 0)?;
//! let model = hearth_onnx::lower(&trace(&net, [1, 1, 16, 16, 16])?, &hearth_onnx::About::new("UNet"))?;
//! let encoded = model.encode();
//! assert!(encoded.data.is_none()); // below 2 GB the weights are in the model
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The model has one input, `image` (`[batch, channel, x, y, z]`, without `z` for 2-D networks),
//! and one output, `logits`. The batch and spatial axes may have any size that the network accepts.
//! Operators are those of version 17 of the standard set, which ONNX Runtime, OpenVINO and TensorRT
//! support.

#![forbid(unsafe_code)]

mod lower;
mod model;
mod wire;

pub use lower::{About, LowerError, lower};
pub use model::{Encoded, MOST_WITHIN, Model};
