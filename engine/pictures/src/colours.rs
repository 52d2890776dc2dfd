//! The colours shared by all pictures.

use crate::Rgb;

/// The background.
pub const BACKGROUND: Rgb = [18, 18, 22];
/// Titles and names.
pub const TEXT: Rgb = [235, 235, 235];
/// Numbers and remarks.
pub const FAINT: Rgb = [165, 165, 170];
/// Grid lines behind curves.
pub const GRID: Rgb = [52, 52, 60];
/// Curves and bars.
pub const CURVE: Rgb = [80, 160, 255];
/// The outline of lines and letters, so that they are legible on bright tissue.
pub const HALO: Rgb = [0, 0, 0];

/// Distinguishable with colour blindness (Okabe and Ito 2008); black, which is the background, is
/// replaced by white.
const CLASSES: [Rgb; 8] = [
    [230, 159, 0],
    [86, 180, 233],
    [0, 158, 115],
    [240, 228, 66],
    [0, 114, 178],
    [213, 94, 0],
    [204, 121, 167],
    [255, 255, 255],
];

/// The colour of a class; class 0 is the background and black. There are eight colours, which
/// repeat from class 9 on.
pub fn of_class(class: usize) -> Rgb {
    match class {
        0 => HALO,
        class => CLASSES[(class - 1) % CLASSES.len()],
    }
}
