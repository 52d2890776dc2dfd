//! Small shapes for events and runs.

use maud::{Markup, html};

use super::at;

/// A shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Glyph {
    /// The best value.
    Star,
    /// A checkpoint.
    Diamond,
    /// An interruption.
    Bars,
    /// A change of the learning rate.
    Arrow,
    /// An early end.
    Cross,
    /// Points of a run.
    Circle,
    /// Points of a second run.
    Square,
    /// Points of a third run.
    Triangle,
}

/// The shapes of points, run by run.
const POINTS: [Glyph; 4] = [Glyph::Circle, Glyph::Square, Glyph::Triangle, Glyph::Diamond];

impl Glyph {
    /// The shape of a run's points.
    pub fn of_run(run: usize) -> Self {
        POINTS[run % POINTS.len()]
    }

    /// The outline, of a radius around a point.
    pub fn path(self, x: f64, y: f64, r: f64) -> String {
        let polygon = |points: &[(f64, f64)]| {
            let one = |(place, (dx, dy)): (usize, &(f64, f64))| {
                format!("{}{} {}", if place == 0 { "M" } else { "L" }, at(x + r * dx), at(y + r * dy))
            };
            points.iter().enumerate().map(one).collect::<String>() + "Z"
        };
        match self {
            Glyph::Star => {
                let corner = |place: usize| {
                    let (angle, far) =
                        (place as f64 * std::f64::consts::PI / 5.0, if place.is_multiple_of(2) { 1.35 } else { 0.55 });
                    (far * angle.sin(), -far * angle.cos())
                };
                polygon(&(0..10).map(corner).collect::<Vec<_>>())
            }
            Glyph::Diamond => polygon(&[(0.0, -1.15), (1.0, 0.0), (0.0, 1.15), (-1.0, 0.0)]),
            Glyph::Bars => {
                polygon(&[(-0.9, -1.0), (-0.25, -1.0), (-0.25, 1.0), (-0.9, 1.0)])
                    + &polygon(&[(0.25, -1.0), (0.9, -1.0), (0.9, 1.0), (0.25, 1.0)])
            }
            Glyph::Arrow => polygon(&[(-1.0, -0.8), (1.0, -0.8), (0.0, 1.1)]),
            Glyph::Cross => polygon(&[
                (-1.0, -0.6),
                (-0.6, -1.0),
                (0.0, -0.4),
                (0.6, -1.0),
                (1.0, -0.6),
                (0.4, 0.0),
                (1.0, 0.6),
                (0.6, 1.0),
                (0.0, 0.4),
                (-0.6, 1.0),
                (-1.0, 0.6),
                (-0.4, 0.0),
            ]),
            Glyph::Circle => {
                // Rounded first, so that the two halves meet exactly.
                let r = (r * 9.0).round() / 10.0;
                let (half, whole) = (at(r), at(2.0 * r));
                format!("M{} {}a{half} {half} 0 1 0 {whole} 0a{half} {half} 0 1 0 -{whole} 0Z", at(x - r), at(y))
            }
            Glyph::Square => polygon(&[(-0.85, -0.85), (0.85, -0.85), (0.85, 0.85), (-0.85, 0.85)]),
            Glyph::Triangle => polygon(&[(0.0, -1.1), (1.0, 0.8), (-1.0, 0.8)]),
        }
    }

    /// The shape alone, for a legend whose text describes it.
    pub fn icon(self, class: &str) -> Markup {
        html! {
            svg.icon.(class) viewBox="0 0 14 14" aria-hidden="true" focusable="false" { path d=(self.path(7.0, 7.0, 4.6)) {} }
        }
    }
}
