//! The colours of a page: those of all pictures, made lighter or darker to contrast with the
//! background.

use hearth_pictures::{Rgb, colours};

/// The background of a light page; below, that of a dark page.
const LIGHT: Rgb = [255, 255, 255];
const DARK: Rgb = colours::BACKGROUND;

/// The minimum contrast of lines and marks: WCAG 2.2 requires 3 for graphics and 4.5 for text, and a
/// legend has both.
const LEAST: f64 = 4.5;

/// The number of runs with their own colours; after that colours repeat, with other dashes.
pub const COUNT: usize = 7;

/// The classes in the order in which runs use their colours: neighbours differ most.
const ORDER: [usize; COUNT] = [5, 6, 3, 7, 1, 2, 4];

/// Dashes of lines, so that lines can be distinguished without colours. Their number has no common
/// factor with the number of colours.
const DASHES: [&str; 5] = ["none", "7 3", "2 3", "9 3 2 3", "12 4"];

/// The style variables `--s0`, `--s1`, ... of a light or a dark page.
pub fn variables(dark: bool) -> String {
    let background = if dark { DARK } else { LIGHT };
    let one = |place: usize| {
        let [r, g, b] = readable(colours::of_class(ORDER[place]), background);
        format!("--s{place}:#{r:02x}{g:02x}{b:02x};")
    };
    (0..COUNT).map(one).collect()
}

/// The style class of a run's colour.
pub fn class(run: usize) -> String {
    format!("s{}", run % COUNT)
}

/// The dash pattern of a run's lines.
pub fn dashes(run: usize) -> &'static str {
    DASHES[run % DASHES.len()]
}

/// The colour, moved towards black or white until it has enough contrast with the background.
fn readable(colour: Rgb, background: Rgb) -> Rgb {
    let target = if luminance(background) > 0.5 { 0.0 } else { 255.0 };
    let moved = |share: f64| colour.map(|part| (f64::from(part) + share * (target - f64::from(part))).round() as u8);
    let steps = (0..=50).map(|step| moved(f64::from(step) / 50.0));
    steps.into_iter().find(|candidate| contrast(*candidate, background) >= LEAST).unwrap_or(moved(1.0))
}

/// The contrast of two colours, from 1 to 21 (WCAG 2.2).
fn contrast(a: Rgb, b: Rgb) -> f64 {
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

fn luminance(colour: Rgb) -> f64 {
    let linear = |part: u8| {
        let part = f64::from(part) / 255.0;
        if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
    };
    let [r, g, b] = colour.map(linear);
    0.2126 * r + 0.7152 * g + 0.0722 * b
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn colours_can_be_read_on_both_pages() {
        assert!((contrast([0, 0, 0], [255, 255, 255]) - 21.0).abs() < 1e-9);
        for background in [LIGHT, DARK] {
            let colours: Vec<Rgb> = ORDER.map(|class| readable(colours::of_class(class), background)).to_vec();
            assert!(colours.iter().all(|colour| contrast(*colour, background) >= LEAST), "{colours:?}");
            assert_eq!(colours.iter().collect::<BTreeSet<_>>().len(), COUNT);
        }
        // Blue is already dark enough for a light page.
        assert!(variables(false).starts_with("--s0:#0072b2;"), "{}", variables(false));
    }

    #[test]
    fn many_runs_have_looks_of_their_own() {
        let looks: BTreeSet<(String, &str)> = (0..35).map(|run| (class(run), dashes(run))).collect();
        assert_eq!(looks.len(), 35);
    }
}
