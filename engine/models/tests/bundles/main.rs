//! MONAI bundles, run: cases that MONAI recorded, what is missing in others, and mistakes.

mod agreement;
mod classification;
#[path = "../../../../tests/clients.rs"]
mod clients;
mod diffusion;
mod exports;
mod mistakes;
mod needs;
mod replay;
