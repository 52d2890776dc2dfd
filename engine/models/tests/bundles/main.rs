//! MONAI bundles, run: cases that MONAI recorded, what is missing in others, and mistakes.

mod agreement;
mod classification;
mod diffusion;
mod mistakes;
mod needs;
mod replay;
