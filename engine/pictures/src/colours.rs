//! The colours that all pictures have in common.

use crate::Rgb;

/// Behind everything.
pub const BACKGROUND: Rgb = [18, 18, 22];
/// Titles and names.
pub const TEXT: Rgb = [235, 235, 235];
/// Numbers and remarks.
pub const FAINT: Rgb = [165, 165, 170];
/// Lines behind curves.
pub const GRID: Rgb = [52, 52, 60];
/// Curves and bars.
pub const CURVE: Rgb = [80, 160, 255];
/// Under lines and letters, so that they can be read on bright tissue.
pub const HALO: Rgb = [0, 0, 0];

/// Told apart with any eyes (Okabe and Ito 2008); black, which is the background here, is white.
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

/// The colour of a class; class 0 is the background and black. There are eight, which begin again
/// with class 9.
pub fn of_class(class: usize) -> Rgb {
    match class {
        0 => HALO,
        class => CLASSES[(class - 1) % CLASSES.len()],
    }
}
