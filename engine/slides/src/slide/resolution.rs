//! Selection of levels by resolution.

use super::Slide;
use crate::error::SlideError;

/// The resolution of a region.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Resolution {
    /// A level, from 0.
    Level(usize),
    /// Micrometres per pixel along both axes. Needs [`Slide::mpp`].
    Mpp(f64),
    /// The magnification of the objective: 20 is half of 40. Needs [`Slide::objective_power`].
    Power(f64),
    /// The number of level-0 pixels per pixel.
    Downsample(f64),
}

/// The default relative tolerance between a level and the requested resolution in MONAI's readers.
pub const RESOLUTION_TOLERANCE: f64 = 0.05;

impl Slide {
    /// The level with a resolution, up to a relative `tolerance` (MONAI's:
    /// [`RESOLUTION_TOLERANCE`]). Of several, the closest.
    ///
    /// # Errors
    /// If no level has it (the error lists the existing ones), or the slide does not state its
    /// resolution.
    pub fn level_for(&self, resolution: Resolution, tolerance: f64) -> Result<usize, SlideError> {
        if let Resolution::Level(level) = resolution {
            return self.check_level(level).map(|_| level);
        }
        let wanted = self.scale(resolution)?;
        // Each axis must be within the tolerance; a power is inverse to the size of a pixel.
        let off = |downsample: f64| {
            wanted.map(|w| if matches!(resolution, Resolution::Power(_)) { w / downsample } else { downsample / w })
        };
        let sum = |downsample: f64| off(downsample).map(|ratio| (ratio - 1.0).abs()).iter().sum::<f64>();
        let levels = self.levels().iter().map(|level| level.downsample).enumerate();
        let closest = levels.min_by(|a, b| sum(a.1).total_cmp(&sum(b.1)));
        match closest.filter(|(_, d)| off(*d).iter().all(|ratio| (ratio - 1.0).abs() <= tolerance)) {
            Some((level, _)) => Ok(level),
            None => {
                let all: Vec<String> =
                    self.levels().iter().map(|l| format!("{:.4}", self.shown(resolution, l.downsample))).collect();
                Err(self.request(format!(
                    "no level has {resolution:?} within {tolerance}; the levels have {}",
                    all.join(", ")
                )))
            }
        }
    }

    /// The level with the largest downsample that is at most `downsample`: the smallest level
    /// without loss of detail.
    pub fn best_level_for_downsample(&self, downsample: f64) -> usize {
        let fine = self.levels().iter().rposition(|level| level.downsample <= downsample * (1.0 + 1e-3));
        fine.unwrap_or(0)
    }

    /// Micrometres per pixel of a level along x and y.
    pub fn level_mpp(&self, level: usize) -> Option<[f64; 2]> {
        let downsample = self.levels().get(level)?.downsample;
        self.mpp().map(|mpp| mpp.map(|m| m * downsample))
    }

    /// Pixels of level 0 per pixel along x and y.
    pub(crate) fn scale(&self, resolution: Resolution) -> Result<[f64; 2], SlideError> {
        let scale = match resolution {
            Resolution::Level(level) => [self.check_level(level)?.downsample; 2],
            Resolution::Downsample(downsample) => [downsample; 2],
            Resolution::Mpp(mpp) => {
                let own = self
                    .mpp()
                    .ok_or_else(|| self.request("the slide does not state its micrometres per pixel".into()))?;
                own.map(|own| mpp / own)
            }
            Resolution::Power(power) => {
                let own = self.objective_power();
                let own = own.ok_or_else(|| self.request("the slide does not state its objective power".into()))?;
                [own / power; 2]
            }
        };
        if scale.iter().all(|s| s.is_finite() && *s > 0.0) {
            Ok(scale)
        } else {
            Err(self.request(format!("{resolution:?} is not a resolution, expected a number above 0")))
        }
    }

    /// A level's value in the unit of the request.
    fn shown(&self, resolution: Resolution, downsample: f64) -> f64 {
        match resolution {
            Resolution::Mpp(_) => self.mpp().map_or(f64::NAN, |mpp| mpp[0] * downsample),
            Resolution::Power(_) => self.objective_power().map_or(f64::NAN, |power| power / downsample),
            _ => downsample,
        }
    }
}
