//! Loss, metrics, learning rate and time by epoch, with the events of the run.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::{View, name};
use crate::palette;
use crate::run::{Epoch, Run};
use crate::svg::{Glyph, LineChart, Mark, Series};
use crate::text::{figure, slug, tick, words};

/// The number of metrics above which the rest is collapsed.
const SHOWN: usize = 8;

/// The maximum number of rows of the table; for longer runs some epochs are left out.
const ROWS: usize = 300;

/// The charts; `None` if no run has a curve.
pub fn show(view: &View<'_>) -> Option<Markup> {
    if view.runs.iter().all(|run| run.epochs.is_empty() && run.steps.is_empty()) {
        return None;
    }
    let mut metrics: Vec<&str> = Vec::new();
    for (metric, _) in view.runs.iter().flat_map(|run| &run.epochs).flat_map(|epoch| &epoch.metrics) {
        if !metrics.contains(&metric.as_str()) {
            metrics.push(metric);
        }
    }
    let key = view.runs.iter().find_map(Run::key_metric).unwrap_or_default();
    metrics.sort_by_key(|metric| (*metric != key, !metric.contains("loss")));
    let mut charts = vec![losses(view)];
    charts.extend(metrics.iter().enumerate().map(|(place, metric)| of_metric(view, place, metric, *metric == key)));
    let more = charts.split_off(charts.len().min(SHOWN));
    let mut last = vec![rates(view), seconds(view)];
    charts.append(&mut last);
    if view.several() {
        charts.extend(over_time(view, key));
    }
    let used = |charts: &[Option<LineChart>]| {
        charts.iter().flatten().flat_map(|chart| chart.marks.iter().map(|m| m.glyph)).collect::<Vec<_>>()
    };
    let glyphs = used(&charts);
    Some(html! {
        @if view.several() { (legend(view)) }
        (events(&glyphs, view.several()))
        div.charts { @for chart in charts.iter().flatten() { (figure_of(chart)) } }
        @if more.iter().any(Option::is_some) {
            details { summary { "Further metrics" } div.charts { @for chart in more.iter().flatten() { (figure_of(chart)) } } }
        }
        details {
            summary { "Numbers by epoch" }
            @for (place, run) in view.each().filter(|(_, run)| !run.epochs.is_empty()) {
                @if view.several() { h3 { (name(place, run)) } }
                (numbers(run, &metrics))
            }
        }
    })
}

fn figure_of(chart: &LineChart) -> Markup {
    html! { figure { figcaption { h3 { (chart.title) } } (chart.draw()) } }
}

/// The runs with their lines and shapes.
fn legend(view: &View<'_>) -> Markup {
    html! {
        ul.legend aria-label="Runs" {
            @for (place, run) in view.each() {
                li data-toggle=(place) {
                    svg.line.(palette::class(place)) viewBox="0 0 44 14" aria-hidden="true" focusable="false" {
                        path.stroke d="M1 7H43" stroke-dasharray=(palette::dashes(place)) {}
                        path.fill d=(Glyph::of_run(place).path(22.0, 7.0, 4.4)) {}
                    }
                    span { (run.name) }
                }
            }
        }
    }
}

/// The legend of the shapes on the curves.
fn events(glyphs: &[Glyph], several: bool) -> Markup {
    let known = [
        (Glyph::Star, "best value of the key metric"),
        (Glyph::Diamond, "checkpoint that was kept"),
        (Glyph::Bars, "interruption, or start of another process"),
        (Glyph::Arrow, "change of the learning rate"),
        (Glyph::Cross, "end before the last epoch"),
    ];
    let used: Vec<&(Glyph, &str)> = known.iter().filter(|(glyph, _)| glyphs.contains(glyph)).collect();
    html! {
        @if !used.is_empty() {
            ul.legend.events aria-label="Events on the curves" {
                @for (glyph, meaning) in used {
                    li { (glyph.icon("event")) span { (meaning) @if several { ", in the colour of its run" } } }
                }
            }
        }
    }
}

/// The losses of single steps, and their mean by epoch: over all steps if the log has it, otherwise
/// over the logged steps.
fn losses(view: &View<'_>) -> Option<LineChart> {
    let mut series = Vec::new();
    for (place, run) in view.each() {
        if !view.several() && !run.steps.is_empty() {
            let length = steps_per_epoch(run);
            let points = run.steps.iter().map(|step| (step.iteration as f64 / length, step.loss)).collect();
            series.push(Series { name: "loss of single steps".into(), run: place, points, faint: true });
        }
        let points = mean_losses(run);
        let name = if view.several() { run.name.clone() } else { "mean of the epoch".into() };
        series.extend((!points.is_empty()).then_some(Series { name, run: place, points, faint: false }));
    }
    let title = if view.several() {
        "Training loss, mean of each epoch"
    } else {
        "Training loss: steps and mean of each epoch"
    };
    chart(view, "loss", title, series, None)
}

fn mean_losses(run: &Run) -> Vec<(f64, f64)> {
    let whole: Vec<(f64, f64)> =
        run.epochs.iter().filter_map(|epoch| Some((epoch.epoch as f64, epoch.loss?))).collect();
    if !whole.is_empty() {
        return whole;
    }
    let mut epochs: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
    for step in &run.steps {
        let (sum, count) = epochs.entry(step.epoch).or_default();
        (*sum, *count) = (*sum + step.loss, *count + 1.0);
    }
    epochs.into_iter().map(|(epoch, (sum, count))| (epoch as f64, sum / count)).collect()
}

fn of_metric(view: &View<'_>, place: usize, metric: &str, is_key: bool) -> Option<LineChart> {
    let points = |epoch: &Epoch| Some((epoch.epoch as f64, epoch.metric(metric)?));
    let title = format!("{}{}", capital(&words(metric)), if is_key { ", the key metric" } else { "" });
    chart(view, &format!("{place}-{}", slug(metric)), &title, by_epoch(view, metric, points), is_key.then_some(metric))
}

fn rates(view: &View<'_>) -> Option<LineChart> {
    let points = |epoch: &Epoch| Some((epoch.epoch as f64, epoch.learning_rate?));
    chart(view, "rate", "Learning rate", by_epoch(view, "learning rate", points), None)
}

fn seconds(view: &View<'_>) -> Option<LineChart> {
    let points = |epoch: &Epoch| Some((epoch.epoch as f64, epoch.seconds?));
    chart(view, "seconds", "Seconds of each epoch", by_epoch(view, "seconds", points), None)
}

/// The key metric and the loss of several runs over the time since their first epoch began: epochs of
/// different recipes take different times.
fn over_time(view: &View<'_>, key: &str) -> [Option<LineChart>; 2] {
    let longest = view.each().filter_map(|(_, run)| clock(run).last().map(|(time, _)| *time)).fold(0.0, f64::max);
    let (unit, length) = match longest {
        seconds if seconds < 600.0 => ("seconds", 1.0),
        seconds if seconds < 36_000.0 => ("minutes", 60.0),
        _ => ("hours", 3600.0),
    };
    let chart = |id: &str, what: &str, value: &dyn Fn(&Epoch) -> Option<f64>| {
        let of = |(place, run): (usize, &Run)| {
            let points = clock(run).into_iter().filter_map(|(time, epoch)| Some((time / length, value(epoch)?)));
            Series { name: run.name.clone(), run: place, points: points.collect(), faint: false }
        };
        let series: Vec<Series> = view.each().map(of).filter(|series| !series.points.is_empty()).collect();
        (!series.is_empty()).then(|| LineChart {
            id: format!("chart-{id}-time"),
            title: format!("{} over time", capital(what)),
            x: unit.into(),
            series,
            marks: Vec::new(),
            may_be_log: true,
        })
    };
    [chart("key", &words(key), &|epoch| epoch.metric(key)), chart("loss", "training loss", &|epoch| epoch.loss)]
}

/// The epochs of a run and the time at their ends, validations and checkpoints included; up to the first one
/// whose time is not known.
fn clock(run: &Run) -> Vec<(f64, &Epoch)> {
    let mut time = 0.0;
    let timed = run.epochs.iter().map_while(|epoch| Some((epoch.wall_seconds.or(epoch.seconds)?, epoch)));
    timed
        .map(|(seconds, epoch)| {
            time += seconds;
            (time, epoch)
        })
        .collect()
}

fn by_epoch(view: &View<'_>, what: &str, point: impl Fn(&Epoch) -> Option<(f64, f64)>) -> Vec<Series> {
    let of = |(place, run): (usize, &Run)| Series {
        name: if view.several() { run.name.clone() } else { words(what) },
        run: place,
        points: run.epochs.iter().filter_map(&point).collect(),
        faint: false,
    };
    view.each().map(of).filter(|series| !series.points.is_empty()).collect()
}

/// A chart of the curves that have values; `key` names the key metric if the chart shows it.
fn chart(view: &View<'_>, id: &str, title: &str, series: Vec<Series>, key: Option<&str>) -> Option<LineChart> {
    if series.iter().all(|series| series.points.is_empty()) {
        return None;
    }
    let marks = match view.several() {
        true => view.each().filter_map(|(place, run)| best(place, run, key?)).collect(),
        false => view.each().flat_map(|(place, run)| marks(place, run, key)).collect(),
    };
    let (id, title) = (format!("chart-{id}"), title.to_owned());
    Some(LineChart { id, title, x: "epoch".into(), series, marks, may_be_log: true })
}

fn best(place: usize, run: &Run, key: &str) -> Option<Mark> {
    let (value, epoch) = run.best()?;
    let text = format!("{}: best {} {} in epoch {epoch}", run.name, words(key), figure(value));
    let is_key = run.key_metric() == Some(key);
    is_key.then_some(Mark { x: epoch as f64, y: Some(value), glyph: Glyph::Star, run: place, text })
}

/// The events of a run that its files record.
fn marks(place: usize, run: &Run, key: Option<&str>) -> Vec<Mark> {
    let (length, last) = (steps_per_epoch(run), run.epochs.last());
    let mut marks = Vec::new();
    let mut add = |x: f64, glyph: Glyph, text: String| marks.push(Mark { x, y: None, glyph, run: place, text });
    if let Some((value, epoch)) = run.best() {
        let metric = run.key_metric().map(words).unwrap_or_default();
        add(epoch as f64, Glyph::Star, format!("Best {metric} {} in epoch {epoch}", figure(value)));
    }
    let mut kept: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    for checkpoint in run.checkpoints.iter().filter(|checkpoint| checkpoint.fault.is_none()) {
        kept.entry(checkpoint.iteration).or_default().push(&checkpoint.tag);
        if checkpoint.tag == "interrupted" {
            let resumed = last.is_some_and(|epoch| epoch.iteration > checkpoint.iteration);
            let then = if resumed { ", then resumed" } else { "" };
            let at = checkpoint.iteration as f64 / length;
            add(at, Glyph::Bars, format!("Interrupted after step {}{then}", checkpoint.iteration));
        }
    }
    for (iteration, tags) in kept {
        let text = format!("Checkpoint after step {iteration}: {}", tags.join(", "));
        add(iteration as f64 / length, Glyph::Diamond, text);
    }
    for epoch in run.machine.iter().flat_map(|machine| &machine.resumed) {
        add(*epoch as f64, Glyph::Bars, format!("Resumed in epoch {epoch}"));
    }
    for (epoch, before, after) in rate_changes(&run.epochs) {
        let text = format!("Learning rate {} instead of {} from epoch {epoch}", tick(after), tick(before));
        add(epoch as f64, Glyph::Arrow, text);
    }
    let ended = run.summary.as_ref().and_then(|summary| Some((summary.outcome.as_deref()?, summary.why.as_deref())));
    if let (Some((outcome @ ("terminated" | "failed"), why)), Some(epoch)) = (ended, last) {
        let word = if outcome == "failed" { "Failed" } else { "Ended early" };
        let why = why.map_or(String::new(), |why| format!(": {why}"));
        add(epoch.epoch as f64, Glyph::Cross, format!("{word} after epoch {}{why}", epoch.epoch));
    }
    if let Some(key) = key {
        marks.extend(best(place, run, key));
    }
    marks
}

/// Changes of the learning rate: epoch, rate before, rate after. Empty for a schedule that changes the
/// rate in most epochs, as the curve shows these.
fn rate_changes(epochs: &[Epoch]) -> Vec<(u64, f64, f64)> {
    let rates: Vec<(u64, f64)> = epochs.iter().filter_map(|epoch| Some((epoch.epoch, epoch.learning_rate?))).collect();
    let changes: Vec<(u64, f64, f64)> =
        rates.windows(2).filter(|pair| pair[0].1 != pair[1].1).map(|pair| (pair[1].0, pair[0].1, pair[1].1)).collect();
    if changes.len() * 3 > rates.len() { Vec::new() } else { changes }
}

fn steps_per_epoch(run: &Run) -> f64 {
    let known = run.epochs.iter().rev().find(|epoch| epoch.epoch > 0 && epoch.iteration > 0);
    known.map_or(1.0, |epoch| epoch.iteration as f64 / epoch.epoch as f64)
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

fn numbers(run: &Run, metrics: &[&str]) -> Markup {
    let metrics: Vec<&&str> =
        metrics.iter().filter(|metric| run.epochs.iter().any(|epoch| epoch.metric(metric).is_some())).collect();
    let every = run.epochs.len().div_ceil(ROWS);
    let best = run.best().map(|(_, epoch)| epoch);
    let shown = |(place, epoch): &(usize, &Epoch)| {
        place % every == 0 || best == Some(epoch.epoch) || place + 1 == run.epochs.len()
    };
    html! {
        div.scroll tabindex="0" role="group" aria-label="Numbers by epoch" {
            table.sortable {
                caption { "Epochs of " (run.name) @if every > 1 { ", every " (every) "th" } }
                thead {
                    tr {
                        th.num scope="col" data-col="0" { "epoch" }
                        th.num scope="col" data-col="1" { "steps" }
                        th.num scope="col" data-col="2" { "learning rate" }
                        @for (place, metric) in metrics.iter().enumerate() {
                            th.num scope="col" data-col=(place + 3) { (words(metric)) }
                        }
                        th.num scope="col" data-col=(metrics.len() + 3) { "seconds" }
                    }
                }
                tbody {
                    @for (_, epoch) in run.epochs.iter().enumerate().filter(shown) {
                        tr.best[best == Some(epoch.epoch)] {
                            th.num scope="row" data-v=(epoch.epoch) { (epoch.epoch) @if best == Some(epoch.epoch) { " ★" span.hidden { " best" } } }
                            td.num data-v=(epoch.iteration) { (epoch.iteration) }
                            (super::table::number(epoch.learning_rate))
                            @for metric in &metrics { (super::table::number(epoch.metric(metric))) }
                            (super::table::number(epoch.seconds))
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epochs(rates: &[f64]) -> Vec<Epoch> {
        let epoch = |(rate, epoch): (&f64, u64)| Epoch { epoch, learning_rate: Some(*rate), ..Epoch::default() };
        rates.iter().zip(1..).map(epoch).collect()
    }

    #[test]
    fn a_plateau_is_an_event_and_a_cosine_is_none() {
        assert_eq!(rate_changes(&epochs(&[0.1, 0.1, 0.1, 0.01, 0.01, 0.01])), [(4, 0.1, 0.01)]);
        assert!(rate_changes(&epochs(&[0.1, 0.09, 0.07, 0.04, 0.01])).is_empty());
        assert!(rate_changes(&[]).is_empty());
    }

    #[test]
    fn the_mean_of_all_steps_is_preferred_to_that_of_some() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("recipe.toml"), "").expect("a recipe");
        let step = "{\"event\":\"iteration\",\"epoch\":1,\"iteration\":10,\"loss\":0.5}\n";
        let means = |epoch: &str| {
            std::fs::write(folder.path().join("log.jsonl"), format!("{step}{epoch}\n")).expect("a log");
            mean_losses(&Run::read(folder.path()).expect("a run"))
        };
        assert_eq!(means("{\"event\":\"epoch\",\"epoch\":1,\"iteration\":10}"), [(1.0, 0.5)]);
        assert_eq!(means("{\"event\":\"epoch\",\"epoch\":1,\"iteration\":10,\"loss\":0.75}"), [(1.0, 0.75)]);
    }
}
