//! Axes: ranges that include all values, with round ticks.

/// A range of values with its ticks.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    low: f64,
    high: f64,
    log: bool,
    /// Round values within the range.
    pub ticks: Vec<f64>,
}

/// The ratio of positive values above which they are shown on a logarithmic scale.
const WIDE: f64 = 50.0;

impl Axis {
    /// A range around the finite values, with about `count` ticks. With `may_be_log` it is logarithmic
    /// if the values span decades.
    pub fn around(values: impl Iterator<Item = f64> + Clone, count: usize, may_be_log: bool) -> Self {
        let finite = values.filter(|value| value.is_finite());
        let low = finite.clone().fold(f64::INFINITY, f64::min);
        let high = finite.fold(f64::NEG_INFINITY, f64::max);
        if low > high {
            return Self::linear(0.0, 1.0, count);
        }
        if may_be_log && low > 0.0 && high / low > WIDE {
            return Self::logarithmic(low, high);
        }
        if low == high {
            let margin = if low == 0.0 { 1.0 } else { low.abs() * 0.1 };
            return Self::linear(low - margin, high + margin, count);
        }
        Self::linear(low, high, count)
    }

    /// A range from zero, for lengths.
    pub fn exact(low: f64, high: f64, count: usize) -> Self {
        let mut axis = Self::linear(low, high, count);
        (axis.low, axis.high) = (low, high);
        axis.ticks.retain(|tick| (low..=high).contains(tick));
        axis
    }

    fn linear(low: f64, high: f64, count: usize) -> Self {
        let step = round_step((high - low) / count.max(1) as f64);
        let (first, last) = ((low / step).floor(), (high / step).ceil());
        let steps = (last - first).clamp(1.0, 50.0) as i64;
        let ticks = (0..=steps).map(|tick| (first + tick as f64) * step).collect();
        Self { low: first * step, high: (first + steps as f64) * step, log: false, ticks }
    }

    fn logarithmic(low: f64, high: f64) -> Self {
        let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
        let every = ((last - first) / 5 + 1) as usize;
        let ticks = (first..=last).step_by(every).map(|power| 10f64.powi(power)).collect();
        Self { low: 10f64.powi(first), high: 10f64.powi(last), log: true, ticks }
    }

    /// Whether the axis is logarithmic.
    pub fn is_log(&self) -> bool {
        self.log
    }

    /// The position of a value, from 0 at the low end to 1.
    pub fn place(&self, value: f64) -> f64 {
        let place = match self.log {
            true => (value / self.low).log10() / (self.high / self.low).log10(),
            false => (value - self.low) / (self.high - self.low),
        };
        place.clamp(0.0, 1.0)
    }
}

/// 1, 2 or 5 times a power of ten, not below `least`.
fn round_step(least: f64) -> f64 {
    if !least.is_finite() || least <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    steps.into_iter().find(|step| *step >= least * (1.0 - 1e-9)).unwrap_or(power * 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around(values: &[f64], log: bool) -> Axis {
        Axis::around(values.iter().copied(), 4, log)
    }

    #[test]
    fn ticks_are_round_and_hold_all_values() {
        let axis = around(&[0.13, f64::NAN, 0.94], false);
        let ticks: Vec<String> = axis.ticks.iter().map(|tick| format!("{tick:.1}")).collect();
        assert_eq!(ticks, ["0.0", "0.5", "1.0"]);
        assert!(axis.place(0.0) == 0.0 && (axis.place(0.5) - 0.5).abs() < 1e-12 && axis.place(7.0) == 1.0);
        assert_eq!(around(&[1.0, 9.0, 50.0], false).ticks.len(), 4);
    }

    #[test]
    fn decades_are_logarithmic_and_nothing_is_a_range_too() {
        let axis = around(&[1e-5, 0.2], true);
        assert!(axis.is_log() && axis.ticks.contains(&1e-3) && (axis.place(1e-5)).abs() < 1e-9, "{axis:?}");
        assert!(!around(&[0.0, 0.2], true).is_log());
        for odd in [&[][..], &[f64::NAN], &[3.0], &[0.0, 0.0], &[f64::INFINITY, 1.0], &[-1e300, 1e300]] {
            let axis = around(odd, true);
            assert!(axis.ticks.len() >= 2 && axis.place(1.0).is_finite(), "{odd:?}: {axis:?}");
        }
    }
}
