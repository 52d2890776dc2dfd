//! Networks, one file each.

mod network;
mod unet;

pub use network::{AnyNetwork, Network, NetworkConfig, ShapeError};
pub use unet::{UNet, UNetConfig};
