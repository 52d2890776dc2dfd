//! Drawings as SVG in the page. Each is an image with a title and a description, text uses the page's
//! font and colours, and nothing is conveyed by colour alone.

mod axis;
mod glyph;
mod line;
mod strip;

pub use glyph::Glyph;
pub use line::{LineChart, Mark, Series};
pub use strip::{Dot, Strip, StripRow};

use axis::Axis;
use maud::{Markup, html};

/// The width of a drawing in its units: about the pixels of a phone in portrait orientation.
const WIDTH: f64 = 480.0;

/// A coordinate, rounded so that files stay small.
fn at(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

/// A drawing with its title and description, which a screen reader reads instead.
fn image(id: &str, height: f64, title: &str, description: &str, inside: &Markup) -> Markup {
    html! {
        svg role="img" viewBox=(format!("0 0 {} {}", at(WIDTH), at(height))) aria-labelledby=(format!("{id}-t {id}-d")) {
            title id=(format!("{id}-t")) { (title) }
            desc id=(format!("{id}-d")) { (description) }
            (inside)
        }
    }
}
