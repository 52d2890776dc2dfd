//! nnU-Net's cropping and augmentation of training patches: the arithmetic, without the random draws.
//!
//! [`patch`] cuts a part that is larger than the network's patch; [`spatial`] rotates and scales it
//! and crops it to the patch; [`intensity`] changes the values of one channel; [`cascade`] changes
//! the labels of an earlier stage.

pub mod cascade;
pub mod intensity;
pub mod patch;
pub mod spatial;
