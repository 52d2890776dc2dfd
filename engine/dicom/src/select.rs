//! Selection of one series of a folder.

use crate::pattern::{is_pattern, matches};
use crate::scan::Scan;
use crate::series::Series;

/// The rules by which a series is selected among several.
const RULES: [&str; 2] = ["most-slices", "thinnest"];

impl Scan {
    /// The index in [`Scan::series`] of the series that a text names: its SeriesInstanceUID, its
    /// description, its SeriesNumber, a pattern of its description (`*thorax*`, in any case), or a
    /// rule. The rules are `most-slices`, and `thinnest`: the smallest distance of slices, and
    /// among equals the most slices (a single slice, such as a localizer, has no distance).
    ///
    /// # Errors
    /// If none or several fit; the text lists the series.
    pub fn select(&self, wanted: &str) -> Result<usize, String> {
        let plain = |text: &str| text.trim().to_lowercase();
        let kinds: [&dyn Fn(&Series) -> bool; 4] = [
            &|s| s.uid() == wanted,
            &|s| s.description() == Some(wanted),
            &|s| s.number().is_some_and(|number| number.to_string() == wanted.trim()),
            &|s| match s.description() {
                Some(text) if is_pattern(wanted) => matches(wanted, text),
                Some(text) => plain(text) == plain(wanted),
                None => false,
            },
        ];
        for kind in kinds {
            let fits: Vec<usize> = (0..self.series.len()).filter(|at| kind(&self.series[*at])).collect();
            match fits.as_slice() {
                [] => {}
                [one] => return Ok(*one),
                _ => {
                    let what =
                        format!("several series are named {wanted:?}; give a UID, or a folder with the files of one");
                    return Err(self.listed(&what));
                }
            }
        }
        let Some(rule) = RULES.into_iter().find(|rule| *rule == plain(wanted)) else {
            let rules = RULES.join(" or ");
            let what = format!(
                "no series is named {wanted:?}; give a UID, number or description of an existing one, or {rules}"
            );
            return Err(self.listed(&what));
        };
        self.by_rule(rule)
    }

    fn by_rule(&self, rule: &str) -> Result<usize, String> {
        let count = |at: &usize| self.series[*at].slices().len();
        let all = (0..self.series.len()).collect::<Vec<usize>>();
        let mut fits = all.clone();
        if rule == "thinnest" {
            let distance = |at: &usize| self.series[*at].grid().spacing()[2];
            fits.retain(|at| count(at) > 1);
            let least = fits.iter().map(distance).fold(f64::INFINITY, f64::min);
            // Positions are rounded in files.
            fits.retain(|at| distance(at) <= least * 1.001);
        }
        let most = fits.iter().map(count).max().unwrap_or_default();
        fits.retain(|at| count(at) == most);
        match fits.as_slice() {
            [one] => Ok(*one),
            [] => Err(self.listed(&format!("no series fits the rule {rule}"))),
            _ => Err(self.listed(&format!("{} series fit the rule {rule} alike; name one", fits.len()))),
        }
    }

    /// Formats a text and a line for each series.
    fn listed(&self, what: &str) -> String {
        let line = |series: &Series| match series.number() {
            Some(number) => format!("\n  {number}: {}", series.summary()),
            None => format!("\n  {}", series.summary()),
        };
        format!("{what}: {}", self.series.iter().map(line).collect::<String>())
    }
}
