//! MONAI bundles, run: cases that MONAI recorded, what is missing in others, and mistakes.

mod mistakes;
mod needs;
mod replay;
