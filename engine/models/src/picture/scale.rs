//! The colours of a map over an image.

use hearth_pictures::Rgb;

/// The colour of a share from 0 to 1, from blue through yellow to red.
pub fn colour(share: f64) -> Rgb {
    const STOPS: [(f64, [f64; 3]); 5] = [
        (0.0, [49.0, 54.0, 149.0]),
        (0.25, [116.0, 173.0, 209.0]),
        (0.5, [255.0, 255.0, 191.0]),
        (0.75, [244.0, 109.0, 67.0]),
        (1.0, [165.0, 0.0, 38.0]),
    ];
    let p = share.clamp(0.0, 1.0);
    let upper = STOPS.iter().position(|(at, _)| *at >= p).unwrap_or(STOPS.len() - 1).max(1);
    let ((a, from), (b, to)) = (STOPS[upper - 1], STOPS[upper]);
    let part = (p - a) / (b - a);
    std::array::from_fn(|c| (from[c] + (to[c] - from[c]) * part).round() as u8)
}

/// A pixel under the colour of a share, which hides more of it the larger the share is.
pub fn over(pixel: Rgb, share: f64) -> Rgb {
    mixed(pixel, colour(share), 0.25 + 0.45 * share.clamp(0.0, 1.0))
}

/// A pixel under the colour of a share of a scale with 0 in its middle, which hides more of it the farther
/// the share is from there.
pub fn over_signed(pixel: Rgb, share: f64) -> Rgb {
    mixed(pixel, colour(share), 0.7 * (2.0 * share.clamp(0.0, 1.0) - 1.0).abs())
}

fn mixed(pixel: Rgb, over: Rgb, strength: f64) -> Rgb {
    std::array::from_fn(|c| (f64::from(pixel[c]) * (1.0 - strength) + f64::from(over[c]) * strength).round() as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_share_is_red_and_hides_more() {
        assert_eq!((colour(0.0), colour(1.0)), ([49, 54, 149], [165, 0, 38]));
        assert_eq!(over([200; 3], 0.0), [162, 164, 187]);
        assert_eq!(over([200; 3], 1.0), [176, 60, 87]);
        // In the middle of a signed scale the image is seen as it is.
        assert_eq!((over_signed([200; 3], 0.5), over_signed([200; 3], 1.0)), ([200; 3], [176, 60, 87]));
    }
}
