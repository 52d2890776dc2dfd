//! Runs of MONAI bundles: cases recorded by MONAI, missing parts of others, and mistakes.

mod agreement;
mod classification;
#[path = "../../../../tests/clients.rs"]
mod clients;
mod diffusion;
mod exports;
mod mistakes;
mod needs;
mod replay;
