//! Patches of training cases, and how nnU-Net changes them: the arithmetic, without the draws.
//!
//! [`patch`] cuts a part that is larger than the network's patch, [`spatial`] turns and scales it
//! and leaves the patch, [`intensity`] changes the values of one channel, [`cascade`] the labels of an
//! earlier stage.

pub mod cascade;
pub mod intensity;
pub mod patch;
pub mod spatial;
