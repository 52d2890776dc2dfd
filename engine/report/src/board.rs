//! A ranking of many runs: [`Board`].

use crate::run::{Progress, Run};

/// Parts of the names of metrics of which a lower value is better, used if no run specifies the
/// direction.
const LOWER: [&str; 8] = ["loss", "error", "mae", "mse", "rmse", "hd", "distance", "fid"];

/// A ranking of runs by their key metric, the best first. Runs without a value come last, with running
/// ones before the others.
///
/// ```
/// use hearth_report::{Board, Run};
///
/// let folder = tempfile::tempdir()?;
/// let mut runs = Vec::new();
/// for (name, dice) in [("first", 0.7), ("second", 0.8)] {
///     let run = folder.path().join(name);
///     std::fs::create_dir(&run)?;
///     std::fs::write(run.join("recipe.toml"), "task = \"spleen\"\n")?;
///     let line = format!("{{\"event\":\"epoch\",\"epoch\":1,\"metrics\":{{\"dice\":{dice}}},\"best\":{dice},\"best_epoch\":1}}\n");
///     std::fs::write(run.join("log.jsonl"), line)?;
///     runs.push(Run::read(&run)?);
/// }
/// let board = Board::new(&runs);
/// assert_eq!((board.rows[0].run.name.as_str(), board.rows[0].value), ("second", Some(0.8)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Board<'a> {
    /// The key metric of most runs.
    pub key: Option<String>,
    /// Whether a higher value of this metric is better.
    pub higher: bool,
    /// The runs, the best first.
    pub rows: Vec<Row<'a>>,
}

/// A run and its rank.
#[derive(Clone, Debug)]
pub struct Row<'a> {
    /// The rank, from 1; equal values share a rank. `None` for runs without a value.
    pub rank: Option<usize>,
    /// The run.
    pub run: &'a Run,
    /// The progress of the run.
    pub progress: Progress,
    /// The best value of the board's key metric.
    pub value: Option<f64>,
    /// The epoch of that value.
    pub epoch: Option<u64>,
}

impl<'a> Board<'a> {
    /// Ranks the runs.
    pub fn new(runs: impl IntoIterator<Item = &'a Run>) -> Self {
        let runs: Vec<&Run> = runs.into_iter().collect();
        let mut keys: Vec<(&str, usize)> = Vec::new();
        for key in runs.iter().filter_map(|run| run.key_metric()) {
            match keys.iter_mut().find(|(known, _)| *known == key) {
                Some((_, count)) => *count += 1,
                None => keys.push((key, 1)),
            }
        }
        let most = keys.iter().map(|(_, count)| *count).max();
        let key = keys.iter().find(|(_, count)| Some(*count) == most).map(|(key, _)| (*key).to_owned());
        let said =
            || runs.iter().filter(|run| run.key_metric() == key.as_deref()).find_map(|run| run.higher_is_better());
        let by_name = || {
            key.as_deref().is_none_or(|key| !key.split('_').any(|part| LOWER.iter().any(|low| part.starts_with(low))))
        };
        let higher = said().unwrap_or_else(by_name);
        let mut rows: Vec<Row<'a>> = runs
            .into_iter()
            .map(|run| {
                let best = key.as_deref().and_then(|key| best(run, key, higher));
                let (value, epoch) = (best.map(|(value, _)| value), best.map(|(_, epoch)| epoch));
                Row { rank: None, run, progress: Progress::of(run), value, epoch }
            })
            .collect();
        rows.sort_by(|a, b| match (a.value, b.value) {
            (Some(x), Some(y)) => {
                if higher { y.total_cmp(&x) } else { x.total_cmp(&y) }.then_with(|| a.run.name.cmp(&b.run.name))
            }
            (x, y) => y.is_some().cmp(&x.is_some()).then_with(|| {
                let order = |row: &Row<'_>| (!row.run.state.is_running(), row.run.name.clone());
                order(a).cmp(&order(b))
            }),
        });
        let values: Vec<Option<f64>> = rows.iter().map(|row| row.value).collect();
        for row in &mut rows {
            row.rank = row
                .value
                .and_then(|value| values.iter().position(|other| *other == Some(value)))
                .map(|place| place + 1);
        }
        Self { key, higher, rows }
    }

    /// The number of runs in each state, in the order of the rows.
    pub fn counts(&self) -> Vec<(&'static str, usize)> {
        let mut counts: Vec<(&'static str, usize)> = Vec::new();
        for word in self.rows.iter().map(|row| row.run.state.word()) {
            match counts.iter_mut().find(|(known, _)| *known == word) {
                Some((_, count)) => *count += 1,
                None => counts.push((word, 1)),
            }
        }
        counts
    }

    /// Whether any run is still running.
    pub fn is_running(&self) -> bool {
        self.rows.iter().any(|row| row.run.state.is_running())
    }
}

/// The best value of a metric, which may differ from the run's key metric.
fn best(run: &Run, key: &str, higher: bool) -> Option<(f64, u64)> {
    if run.key_metric() == Some(key) {
        return run.best().filter(|(value, _)| !value.is_nan());
    }
    let values = run.epochs.iter().filter_map(|epoch| Some((epoch.metric(key)?, epoch.epoch)));
    let better = |a: f64, b: f64| if higher { a > b } else { a < b };
    values.filter(|(value, _)| !value.is_nan()).reduce(|a, b| if better(b.0, a.0) { b } else { a })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Epoch, State};

    fn run(name: &str, values: &[f64], key: Option<(&str, bool)>) -> Run {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("recipe.toml"), "").expect("a recipe");
        let mut run = Run::read(folder.path()).expect("a run");
        run.name = name.to_owned();
        let metric = key.map_or("hd95", |(key, _)| key).to_owned();
        run.epochs = values
            .iter()
            .zip(1..)
            .map(|(value, epoch)| Epoch { epoch, metrics: vec![(metric.clone(), *value)], ..Epoch::default() })
            .collect();
        run.key_of_log = key.map(|(key, higher)| (key.to_owned(), higher));
        run.best_of_log = key.and_then(|(key, higher)| best(&Run { key_of_log: None, ..run.clone() }, key, higher));
        run
    }

    #[test]
    fn the_best_is_first_by_the_direction_of_the_metric() {
        let key = Some(("hd95", false));
        let mut running = run("z", &[], None);
        running.state = State::Running(String::new());
        let runs = [
            run("none", &[], None),
            run("a", &[5.0, 3.0, 4.0], key),
            running,
            run("b", &[2.0, 9.0], key),
            run("other", &[2.5], Some(("dice", true))),
            run("same", &[3.0], key),
        ];
        let board = Board::new(&runs);
        let rows: Vec<(&str, Option<usize>)> = board.rows.iter().map(|row| (row.run.name.as_str(), row.rank)).collect();
        assert_eq!(
            rows,
            [("b", Some(1)), ("a", Some(2)), ("same", Some(2)), ("z", None), ("none", None), ("other", None)]
        );
        assert_eq!((board.key.as_deref(), board.higher, board.rows[1].epoch), (Some("hd95"), false, Some(2)));
        assert_eq!(board.counts(), [("unfinished", 5), ("running", 1)]);
        assert!(board.is_running());
    }

    #[test]
    fn a_loss_is_better_lower_where_nobody_says_so() {
        let mut one = run("one", &[], None);
        one.epochs = vec![Epoch { epoch: 1, metrics: vec![("val_loss".into(), 1.0)], ..Epoch::default() }];
        one.best_of_log = Some((1.0, 1));
        assert!(!Board::new([&one]).higher);
        assert!(Board::new([]).rows.is_empty());
    }
}
