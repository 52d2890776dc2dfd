//! Selection of one series of a folder.

use crate::pattern::{is_pattern, matches};
use crate::scan::Scan;
use crate::series::Series;

/// The rules by which a series is selected among several.
const RULES: [&str; 2] = ["most-slices", "thinnest"];

/// The most series that are listed.
const LISTED: usize = 40;

/// Precedes the key of a volume.
const KEY: char = '#';

impl Scan {
    /// The index in [`Scan::series`] of the series that a text names: its SeriesInstanceUID, its
    /// description, its SeriesNumber, a pattern of its description (`*thorax*`, in any case), or a
    /// rule. The rules are `most-slices`, and `thinnest`: the smallest distance of slices, and
    /// among equals the most slices (a single slice, such as a localizer, has no distance).
    ///
    /// `#` and a [key](Series::key) after it select one of the volumes that share a SeriesInstanceUID:
    /// `1.2.840.1#echo2`, `*thorax*#localizer`, or only `#echo2`. Parts of a key are enough if one
    /// volume alone has them.
    ///
    /// # Errors
    /// If none or several fit; the text lists the series.
    pub fn select(&self, wanted: &str) -> Result<usize, String> {
        let all: Vec<usize> = (0..self.series.len()).collect();
        if let Some(found) = self.named(wanted, &all)? {
            return Ok(found);
        }
        if let Some((name, key)) = wanted.rsplit_once(KEY) {
            return self.keyed(name.trim(), key.trim(), &all);
        }
        self.by_rule(wanted, &all)
    }

    /// The one of some series with a name.
    fn named(&self, wanted: &str, among: &[usize]) -> Result<Option<usize>, String> {
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
            let fits: Vec<usize> = among.iter().copied().filter(|at| kind(&self.series[*at])).collect();
            match fits.as_slice() {
                [] => {}
                [one] => return Ok(Some(*one)),
                several => return Err(self.ambiguous(wanted, several)),
            }
        }
        Ok(None)
    }

    /// The one of some series with a name and a key; an empty name is that of all.
    fn keyed(&self, name: &str, key: &str, among: &[usize]) -> Result<usize, String> {
        let called = |fits: &dyn Fn(&Series) -> bool| -> Vec<usize> {
            among.iter().copied().filter(|at| fits(&self.series[*at])).collect()
        };
        let mut volumes = called(&|series| series.is_called(key));
        if volumes.is_empty() {
            volumes = called(&|series| series.answers_to(key));
        }
        match volumes.as_slice() {
            [] => Err(self.listed(&format!("no volume has the key {key:?}; choose another"))),
            [one] if name.is_empty() => Ok(*one),
            several if name.is_empty() => Err(self.ambiguous(&format!("{KEY}{key}"), several)),
            several => match self.named(name, several)? {
                Some(found) => Ok(found),
                None => self.by_rule(name, several),
            },
        }
    }

    fn by_rule(&self, wanted: &str, among: &[usize]) -> Result<usize, String> {
        let Some(rule) = RULES.into_iter().find(|rule| *rule == wanted.trim().to_lowercase()) else {
            let rules = RULES.join(" or ");
            let what = match wanted.trim() {
                "auto" => format!(
                    "auto is for commands with a model, which decides by its modality; give a UID, number or \
                     description of a series, or {rules}"
                ),
                _ => format!(
                    "no series is named {wanted:?}; give a UID, number or description of an existing one, or {rules}"
                ),
            };
            return Err(self.listed(&what));
        };
        let count = |at: &usize| self.series[*at].slices().len();
        let mut fits = among.to_vec();
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

    /// The error for a name that several series have.
    fn ambiguous(&self, wanted: &str, fits: &[usize]) -> String {
        let first = &self.series[fits[0]];
        let volumes = fits.iter().all(|at| self.series[*at].uid() == first.uid());
        let what = match first.key().filter(|_| volumes) {
            Some(key) => {
                let (count, name) = (fits.len(), if wanted.starts_with(KEY) { "" } else { wanted });
                format!("{wanted:?} has {count} volumes; name one with its key, as in {name}{KEY}{key}")
            }
            None => format!("several series are named {wanted:?}; give a UID, or a folder with the files of one"),
        };
        self.listed(&what)
    }

    /// Formats a text and a line for each series.
    fn listed(&self, what: &str) -> String {
        format!("{what}: {}", self.list())
    }

    /// A line for each series, as far as they are few: number, modality, description, size, name.
    pub fn list(&self) -> String {
        let line = |series: &Series| match series.number() {
            Some(number) => format!("\n  {number}: {}", series.summary()),
            None => format!("\n  {}", series.summary()),
        };
        let listed: String = self.series.iter().take(LISTED).map(line).collect();
        match self.series.len().saturating_sub(LISTED) {
            0 => listed,
            more => format!("{listed}\n  and {more} more"),
        }
    }

    /// Whether all series are volumes with one SeriesInstanceUID.
    pub fn is_of_volumes(&self) -> bool {
        let first = self.series.first().filter(|first| first.key().is_some());
        first.is_some_and(|first| self.series.iter().all(|series| series.uid() == first.uid()))
    }
}
