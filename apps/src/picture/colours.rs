//! The colours that all pictures share.

use super::canvas::Rgb;

/// The background.
pub const BACKGROUND: Rgb = [18, 18, 22];
/// Titles and names.
pub const TEXT: Rgb = [235, 235, 235];
/// Numbers and remarks.
pub const FAINT: Rgb = [160, 160, 165];
/// Curves and bars.
pub const CURVE: Rgb = [80, 160, 255];
