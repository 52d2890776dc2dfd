//! The ranges of random affine transforms.

use hearth_image::spatial::AffineParameters;
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Draw;

/// The range of a uniform draw: a number `a` means -a..a, a pair means its two ends.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a number, or two for both ends of a range")]
pub enum Span {
    /// From minus this number to this number.
    Half(f64),
    /// From the first number to the second.
    Between([f64; 2]),
}

impl Default for Span {
    fn default() -> Self {
        Span::Half(0.0)
    }
}

impl Span {
    /// Draws a number.
    pub fn draw(self, draw: &Draw) -> f64 {
        let (low, high) = self.ends();
        draw.between(low, high)
    }

    /// Both ends, as given.
    pub fn ends(self) -> (f64, f64) {
        match self {
            Span::Half(half) => (-half, half),
            Span::Between([low, high]) => (low, high),
        }
    }

    /// Checks that both ends are finite.
    pub(super) fn check(self, parameter: &str) -> Result<(), Fault> {
        let (low, high) = self.ends();
        if low.is_finite() && high.is_finite() {
            Ok(())
        } else {
            Err(Fault::at(parameter, format!("{low}..{high} is not a range of finite numbers")))
        }
    }
}

impl From<f64> for Span {
    fn from(half: f64) -> Self {
        Span::Half(half)
    }
}

impl From<[f64; 2]> for Span {
    fn from(ends: [f64; 2]) -> Self {
        Span::Between(ends)
    }
}

/// One [`Span`] per parameter of a matrix: one number for the first parameter only, or a list of
/// numbers and pairs. Parameters without a span keep their defaults.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "Written", into = "Vec<Span>")]
pub struct Spans(Vec<Span>);

#[derive(Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a number, or a list with a number or a range for each axis")]
enum Written {
    One(f64),
    Many(Vec<Span>),
}

impl From<Written> for Spans {
    fn from(written: Written) -> Self {
        match written {
            Written::One(half) => Spans(vec![Span::Half(half)]),
            Written::Many(spans) => Spans(spans),
        }
    }
}

impl From<Spans> for Vec<Span> {
    fn from(spans: Spans) -> Self {
        spans.0
    }
}

impl From<f64> for Spans {
    fn from(half: f64) -> Self {
        Spans(vec![Span::Half(half)])
    }
}

impl<S: Into<Span>> From<Vec<S>> for Spans {
    fn from(spans: Vec<S>) -> Self {
        Spans(spans.into_iter().map(Into::into).collect())
    }
}

impl<S: Into<Span>, const N: usize> From<[S; N]> for Spans {
    fn from(spans: [S; N]) -> Self {
        Spans(spans.into_iter().map(Into::into).collect())
    }
}

impl Spans {
    fn draw(&self, draw: &Draw, add: f64) -> Vec<f64> {
        self.0.iter().map(|span| add + span.draw(draw)).collect()
    }
}

/// The ranges of a random affine transform, by parameter.
pub(super) struct AffineRanges<'a> {
    pub rotate_range: &'a Spans,
    pub shear_range: &'a Spans,
    pub translate_range: &'a Spans,
    pub scale_range: &'a Spans,
}

impl AffineRanges<'_> {
    /// Draws angles, shears, shifts, and factors (1 plus the draw), in this order.
    pub fn draw(&self, draw: &Draw) -> AffineParameters {
        AffineParameters {
            rotate: self.rotate_range.draw(draw, 0.0),
            shear: self.shear_range.draw(draw, 0.0),
            translate: self.translate_range.draw(draw, 0.0),
            scale: self.scale_range.draw(draw, 1.0),
            ..AffineParameters::default()
        }
    }

    /// Checks that the ranges are finite, not too many, and exclude factors of 0.
    pub fn check(&self) -> Result<(), Fault> {
        for (name, spans, most) in [
            ("rotate_range", self.rotate_range, 3),
            ("shear_range", self.shear_range, 6),
            ("translate_range", self.translate_range, 3),
            ("scale_range", self.scale_range, 3),
        ] {
            spans.0.iter().try_for_each(|span| span.check(name))?;
            if spans.0.len() > most {
                return Err(Fault::at(name, format!("has {} ranges; there are at most {most}", spans.0.len())));
            }
        }
        for (low, high) in self.scale_range.0.iter().map(|span| span.ends()) {
            if low.min(high) <= -1.0 {
                return Err(Fault::at(
                    "scale_range",
                    format!("{low}..{high} reaches -1: 1 is added to it, and a factor of 0 or less is not a scaling"),
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DrawKey;

    fn spans(json: &str) -> Spans {
        serde_json::from_str(json).expect("ranges")
    }

    #[test]
    fn they_are_written_as_in_monai() {
        assert_eq!(spans("0.5"), Spans(vec![Span::Half(0.5)]));
        // Two numbers are two parameters, not one range.
        assert_eq!(spans("[0.1, 0.2]"), Spans(vec![Span::Half(0.1), Span::Half(0.2)]));
        assert_eq!(spans("[[0.1, 0.2], 3]"), Spans(vec![Span::Between([0.1, 0.2]), Span::Half(3.0)]));
        assert!(serde_json::from_str::<Spans>("[[0.1, 0.2, 0.3]]").is_err());
    }

    #[test]
    fn draws_fill_their_ranges() {
        let (rotate, none, scale) = (spans("[[0.1, 0.2], 0.5]"), Spans::default(), spans("[0.25]"));
        let ranges =
            AffineRanges { rotate_range: &rotate, shear_range: &none, translate_range: &none, scale_range: &scale };
        let (mut low, mut high) = ([f64::MAX; 3], [f64::MIN; 3]);
        for case in 0..2000 {
            let drawn = ranges.draw(&DrawKey::new(1, 0, 0).draw(&case.to_string(), 0, 0));
            assert!(drawn.shear.is_empty() && drawn.translate.is_empty() && drawn.scale.len() == 1);
            for (i, v) in [drawn.rotate[0], drawn.rotate[1], drawn.scale[0]].into_iter().enumerate() {
                low[i] = low[i].min(v);
                high[i] = high[i].max(v);
            }
        }
        for (i, (a, b)) in [(0.1, 0.2), (-0.5, 0.5), (0.75, 1.25)].into_iter().enumerate() {
            let slack = 0.01 * (b - a);
            assert!(a <= low[i] && low[i] < a + slack && b - slack < high[i] && high[i] <= b, "{i}: {low:?} {high:?}");
        }
    }

    #[test]
    fn ranges_that_make_no_sense_are_refused() {
        let none = Spans::default();
        let check = |rotate: &Spans, scale: &Spans| {
            AffineRanges { rotate_range: rotate, shear_range: &none, translate_range: &none, scale_range: scale }
                .check()
        };
        assert!(check(&spans("[1, 1, 1]"), &spans("[-0.5, [-0.9, 3]]")).is_ok());
        assert!(check(&spans("[1, 1, 1, 1]"), &none).is_err());
        assert!(check(&Spans::from(f64::NAN), &none).is_err());
        assert!(check(&none, &spans("1.5")).is_err());
        assert!(check(&none, &spans("[[-2, -1.5]]")).is_err());
    }
}
