//! Shapes that phantoms are made of.

use hearth_transforms::Draw;
use rayon::prelude::*;

/// An ellipsoid with a bumpy surface.
pub(super) struct Organ {
    pub center: [f64; 3],
    pub radii: [f64; 3],
    /// Rotation about the body's long axis.
    pub turn: (f64, f64),
    pub bumps: [f64; 6],
    pub hu: f64,
}

impl Organ {
    pub fn new(draw: &Draw, center: [f64; 3], radii: [f64; 3], turn: f64, hu: (f64, f64), vary: f64) -> Self {
        let scale = draw.between(1.0 - vary, 1.0 + vary);
        let turn: f64 = turn + draw.between(-0.25, 0.25);
        Organ {
            center: center.map(|c| c + draw.between(-55.0, 55.0) * vary),
            radii: radii.map(|r| r * scale * draw.between(1.0 - vary / 2.0, 1.0 + vary / 2.0)),
            turn: turn.sin_cos(),
            bumps: std::array::from_fn(|_| draw.between(-0.09, 0.09)),
            hu: draw.between(hu.0, hu.1),
        }
    }

    /// Squared distance from the centre in radii, surface bumps included: inside below 1.
    pub fn level(&self, at: [f64; 3]) -> f64 {
        let [x, y, z] = std::array::from_fn(|a| at[a] - self.center[a]);
        let (s, c) = self.turn;
        let [x, y, z] = [(c * x + s * y) / self.radii[0], (c * y - s * x) / self.radii[1], z / self.radii[2]];
        let b = &self.bumps;
        let waves = b[0] * (3.1 * x + 1.3 * z).sin()
            + b[1] * (2.7 * y - 1.9 * x).cos()
            + b[2] * (3.7 * z + y).sin()
            + b[3] * x * y
            + b[4] * y * z
            + b[5] * x * z;
        x * x + y * y + z * z + 2.0 * waves
    }

    pub fn holds(&self, at: [f64; 3]) -> bool {
        self.level(at) < 1.0
    }
}

/// A 1-2-1 average along each axis: the blur of a scanner.
pub(super) fn smooth(values: &mut [f32], [nx, ny, nz]: [usize; 3]) {
    for (n, stride) in [(nx, ny * nz), (ny, nz), (nz, 1)] {
        let old = values.to_vec();
        values.par_iter_mut().enumerate().for_each(|(i, value)| {
            let k = i / stride % n;
            let before = if k > 0 { old[i - stride] } else { old[i] };
            let after = if k + 1 < n { old[i + stride] } else { old[i] };
            *value = 0.25 * before + 0.5 * old[i] + 0.25 * after;
        });
    }
}
