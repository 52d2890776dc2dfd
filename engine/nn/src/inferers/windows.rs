//! The window positions of a dense scan.

/// Step between windows per axis: the window itself if it covers the image, otherwise the part that
/// does not overlap, at least 1.
pub fn scan_interval<const D: usize>(image: [usize; D], roi: [usize; D], overlap: [f64; D]) -> [usize; D] {
    std::array::from_fn(|axis| {
        if roi[axis] == image[axis] {
            roi[axis]
        } else {
            // Truncated, as Python's int() does.
            ((roi[axis] as f64 * (1.0 - overlap[axis])) as usize).max(1)
        }
    })
}

/// First positions of the windows on one axis. The last window is moved back to end with the image.
fn starts(image: usize, patch: usize, interval: usize) -> Vec<usize> {
    if interval == 0 {
        return vec![0];
    }
    let last = image.saturating_sub(patch);
    // MONAI looks for the end among the windows that start within the image; if none reaches it,
    // the scan has one window.
    if last.div_ceil(interval) >= image.div_ceil(interval) {
        return vec![0];
    }
    let mut starts: Vec<usize> = (0..).map(|i| i * interval).take_while(|start| *start < last).collect();
    starts.push(last);
    starts
}

/// The `[start, stop]` per axis of every window of a scan (`monai.data.utils.dense_patch_slices`),
/// first axis slowest. A patch of 0, or larger than the image, takes the image's length; an
/// interval of 0 gives one window.
pub fn dense_patch_slices(image: &[usize], patch: &[usize], interval: &[usize]) -> Vec<Vec<[usize; 2]>> {
    let mut windows: Vec<Vec<[usize; 2]>> = vec![Vec::new()];
    for (axis, &length) in image.iter().enumerate() {
        let patch = match patch.get(axis) {
            Some(&patch) if patch > 0 => patch.min(length),
            _ => length,
        };
        let starts = starts(length, patch, interval.get(axis).copied().unwrap_or(0));
        windows = windows
            .iter()
            .flat_map(|window| {
                starts.iter().map(move |&start| {
                    let mut window = window.clone();
                    window.push([start, start + patch]);
                    window
                })
            })
            .collect();
    }
    windows
}

#[cfg(test)]
mod tests {
    use super::{dense_patch_slices, scan_interval, starts};

    /// The table of starts in MONAI's documentation of recipes.
    #[test]
    fn starts_cover_the_image_and_end_with_it() {
        assert_eq!(starts(200, 160, 120), [0, 40]);
        assert_eq!(starts(300, 160, 120), [0, 120, 140]);
        assert_eq!(starts(500, 96, 48).last(), Some(&404));
        assert_eq!(starts(500, 96, 48).len(), 10);
        assert_eq!(starts(160, 160, 160), [0]);
        assert_eq!((starts(10, 4, 5), starts(12, 4, 5)), (vec![0], vec![0, 5, 8]));
    }

    #[test]
    fn a_window_that_covers_an_axis_is_one_window() {
        let interval = scan_interval([240, 240, 160], [240, 240, 160], [0.6; 3]);
        assert_eq!(dense_patch_slices(&[240, 240, 160], &[240, 240, 160], &interval).len(), 1);
        assert_eq!(scan_interval([128; 3], [96; 3], [0.5; 3]), [48; 3]);
        assert_eq!(scan_interval([9, 9], [4, 4], [0.99, 0.0]), [1, 4]);
    }
}
