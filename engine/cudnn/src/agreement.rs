//! Whether the vendor's results can be trusted: [`agree`], and the reasons for not using them:
//! [`Fallback`].

use crate::convolution::Element;
use crate::error::Error;

/// How far two results of the same convolution may differ, both computed with sums in f32 in
/// different orders.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// The part of a value, and of the values' root mean square, by which the results may differ.
    pub relative: f64,
}

impl Tolerance {
    /// The tolerance for elements of a type, `tf32` if f32 was rounded to TF32, with the number of
    /// products in a value.
    ///
    /// Elements are rounded once on each side: half precision has 11 bits, bf16 8, and TF32 rounds
    /// the factors to 11. Engines that transform (Winograd) add up to a ten-thousandth to f32. Errors
    /// of sums grow with the root of their length.
    pub fn of(element: Element, tf32: bool, products: usize) -> Self {
        let rounding = match element {
            Element::F32 if tf32 => 4e-3,
            Element::F32 => 1e-4,
            Element::F16 => 4e-3,
            Element::Bf16 => 2e-2,
        };
        let sums = 4.0 * f64::from(f32::EPSILON) * (products as f64).sqrt();
        Tolerance { relative: rounding + sums }
    }
}

/// The first place where two results differ too much, and how many do.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Disagreement {
    /// The results have different numbers of values.
    #[error("{theirs} values: expected {ours}")]
    Lengths {
        /// The number of our values.
        ours: usize,
        /// The number of the vendor's values.
        theirs: usize,
    },
    /// There is nothing to compare.
    #[error("no values to compare")]
    Empty,
    /// Values differ.
    #[error("{count} of {of} values differ; the first is {theirs} at {index}: expected {ours} within {allowed:e}")]
    Values {
        /// The index of the first value that differs.
        index: usize,
        /// Our value.
        ours: f32,
        /// The vendor's value.
        theirs: f32,
        /// The difference that is allowed there.
        allowed: f64,
        /// The number of values that differ.
        count: usize,
        /// The number of values.
        of: usize,
    },
}

/// Compares the vendor's result with ours.
///
/// # Errors
/// If a value differs by more than the tolerance, or is non-finite on one side alone.
pub fn agree(ours: &[f32], theirs: &[f32], tolerance: Tolerance) -> Result<(), Disagreement> {
    if ours.len() != theirs.len() {
        return Err(Disagreement::Lengths { ours: ours.len(), theirs: theirs.len() });
    }
    if ours.is_empty() {
        return Err(Disagreement::Empty);
    }
    let finite = ours.iter().map(|value| f64::from(*value)).filter(|value| value.is_finite());
    let (sum, count) = finite.fold((0.0, 0.0_f64), |(sum, count), value| (sum + value * value, count + 1.0));
    let mean = (sum / count.max(1.0)).sqrt();
    let allowed = |ours: f32| tolerance.relative * (f64::from(ours).abs() + mean);
    let differs = |ours: f32, theirs: f32| match (ours.is_finite(), theirs.is_finite()) {
        (true, true) => (f64::from(ours) - f64::from(theirs)).abs() > allowed(ours),
        (false, false) => !(ours == theirs || ours.is_nan() && theirs.is_nan()),
        _ => true,
    };
    let mut different = ours.iter().zip(theirs).enumerate().filter(|(_, (ours, theirs))| differs(**ours, **theirs));
    match different.next() {
        None => Ok(()),
        Some((index, (first, vendors))) => Err(Disagreement::Values {
            index,
            ours: *first,
            theirs: *vendors,
            allowed: allowed(*first),
            count: 1 + different.count(),
            of: ours.len(),
        }),
    }
}

/// The reason why a convolution is computed by our kernels although the vendor's library could be
/// used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Fallback {
    /// The library cannot be opened or is too old.
    #[error("the vendor's library cannot be used: {0}")]
    Library(#[source] Error),
    /// No engine computes this convolution within the options.
    #[error("the vendor's library has no plan: {0}")]
    NoPlan(#[source] Error),
    /// Planning or executing failed.
    #[error("the vendor's library failed: {0}")]
    Failed(#[source] Error),
    /// The GPU's runtime has not run the library.
    #[error("the GPU's runtime has not run the vendor's library: {0}")]
    NotRun(String),
    /// Its result is wrong.
    #[error("the vendor's library computes {convolution} wrongly: {disagreement}")]
    Wrong {
        /// The convolution.
        convolution: String,
        /// The first value that differs.
        #[source]
        disagreement: Disagreement,
    },
}

impl From<Error> for Fallback {
    fn from(error: Error) -> Self {
        match error {
            Error::NotFound { .. }
            | Error::Named { .. }
            | Error::CannotOpen { .. }
            | Error::Lacks { .. }
            | Error::Old { .. } => Fallback::Library(error),
            Error::NoPlan { .. } => Fallback::NoPlan(error),
            _ => Fallback::Failed(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_allowed_and_faults_are_not() {
        let ours: Vec<f32> = (0..1000).map(|i| ((i * 37 % 101) as f32 - 50.0) / 7.0).collect();
        for (element, tf32, bits) in
            [(Element::F32, false, 23), (Element::F32, true, 10), (Element::F16, false, 10), (Element::Bf16, false, 7)]
        {
            let tolerance = Tolerance::of(element, tf32, 27 * 64);
            // The other neighbour of each value in the type.
            let step = 2.0_f32.powi(-bits);
            let theirs: Vec<f32> = ours.iter().map(|value| value * (1.0 + step)).collect();
            assert_eq!(agree(&ours, &theirs, tolerance), Ok(()), "{element:?}");
            let mut wrong = theirs.clone();
            wrong[700] += 0.5;
            wrong[900] = f32::NAN;
            let Err(Disagreement::Values { index: 700, count: 2, of: 1000, .. }) = agree(&ours, &wrong, tolerance)
            else {
                panic!("{element:?}: {:?}", agree(&ours, &wrong, tolerance));
            };
        }
        // What a half has lost is too much for f32.
        let halves: Vec<f32> = ours.iter().map(|value| value * 1.001).collect();
        assert!(agree(&ours, &halves, Tolerance::of(Element::F32, false, 100)).is_err());
    }

    #[test]
    fn special_values_are_compared() {
        let tolerance = Tolerance::of(Element::F16, false, 1);
        let special = [f32::INFINITY, f32::NAN, 1.0];
        assert_eq!(agree(&special, &special, tolerance), Ok(()));
        assert!(agree(&special, &[f32::NEG_INFINITY, f32::NAN, 1.0], tolerance).is_err());
        assert_eq!(agree(&[0.0; 3], &[0.0; 3], tolerance), Ok(()));
        assert!(agree(&[0.0; 3], &[0.0, 1e-20, 0.0], tolerance).is_err());
        assert_eq!(agree(&[], &[], tolerance), Err(Disagreement::Empty));
        assert_eq!(agree(&[1.0], &[], tolerance), Err(Disagreement::Lengths { ours: 1, theirs: 0 }));
    }
}
