//! The view of a run: its progress, numbers, curves and warnings.

use hearth_report::Run;
use hearth_report::run::Progress;
use hearth_report::text::{NONE, duration, figure, words};
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::{Constraint, Layout, Rect};
use ratatui_core::style::{Color, Style, Stylize};
use ratatui_core::text::{Line, Span};
use ratatui_core::widgets::Widget;
use ratatui_widgets::gauge::LineGauge;
use ratatui_widgets::paragraph::Paragraph;

use super::chart::{Chart, draw as draw_chart};
use crate::narrate::plain;

/// The number of columns for numbers next to the curves.
const FIGURES: u16 = 42;

/// The minimum rows and columns of a chart.
const CHART: (u16, u16) = (8, 34);

/// The number of warnings that are shown.
const WARNINGS: usize = 3;

/// The colour of a state; its sign and word have the same meaning.
pub fn colour(run: &Run) -> Color {
    match run.state.word() {
        "running" | "completed" => Color::Green,
        "killed" | "failed" => Color::Red,
        _ => Color::Yellow,
    }
}

/// Draws the run.
pub fn draw(buffer: &mut Buffer, area: Rect, run: &Run) {
    let progress = Progress::of(run);
    let warned = run.warnings.len().min(WARNINGS) as u16;
    let rows = [1, 1, 1].map(Constraint::Length);
    let [head, gauge, _, body, warnings] =
        Layout::vertical([rows[0], rows[1], rows[2], Constraint::Min(0), Constraint::Length(warned)]).areas(area);
    let state = Span::styled(format!("{} {}", run.state.sign(), run.state.word()), Style::new().fg(colour(run)).bold());
    let about = format!("  {}  ", plain(&run.title()));
    let folder = Span::styled(plain(&run.folder.display().to_string()), Style::new().dim());
    (Line::from(vec![state, Span::raw(about).bold(), folder])).render(head, buffer);
    (bar(&progress)).render(gauge, buffer);

    let charts = charts(run, &progress);
    let beside = body.width >= FIGURES + CHART.1;
    let parts =
        if beside { Layout::horizontal([FIGURES, body.width - FIGURES]) } else { Layout::vertical([body.height, 0]) };
    let lines = figures(run, &progress);
    let parts = if !beside && body.height > lines.len() as u16 + CHART.0 {
        Layout::vertical([lines.len() as u16 + 1, body.height - lines.len() as u16 - 1])
    } else {
        parts
    };
    let [left, right]: [Rect; 2] = parts.areas(body);
    (Paragraph::new(lines)).render(left, buffer);
    let fit = charts.len().min(usize::from(right.height / CHART.0));
    let places = Layout::vertical(vec![Constraint::Fill(1); fit]).split(right);
    charts.iter().zip(places.iter()).for_each(|(chart, place)| draw_chart(buffer, *place, chart));
    let newest = run.warnings[run.warnings.len() - usize::from(warned)..].iter().map(|warning| {
        let kind = if warning.is_error { "error" } else { "warning" };
        Line::from(vec![Span::raw(format!("{kind}: ")).yellow(), Span::raw(plain(&warning.message))])
    });
    (Paragraph::new(newest.collect::<Vec<_>>())).render(warnings, buffer);
}

fn bar(progress: &Progress) -> LineGauge<'_> {
    let of = progress.of.map_or(String::new(), |of| format!(" of {of}"));
    let done = progress.done().unwrap_or(0.0);
    let left = progress.left.map_or(String::new(), |left| format!(", {} left", duration(left)));
    let label = format!("epoch {}{of}, {:.0} %{left} ", progress.epoch(), done * 100.0);
    LineGauge::default()
        .ratio(done)
        .label(label)
        .filled_style(Style::new().fg(Color::Blue))
        .unfilled_style(Style::new().dim())
}

fn figures(run: &Run, progress: &Progress) -> Vec<Line<'static>> {
    let none = || NONE.to_owned();
    let row = |name: &str, value: String| {
        let name = plain(name).chars().take(24).collect::<String>();
        Line::from(vec![Span::styled(format!("{name:<24} "), Style::new().dim()), Span::raw(value)])
    };
    let mut lines = vec![
        row("step", progress.iteration.to_string()),
        row("loss", progress.loss.map_or_else(none, |(loss, _)| figure(loss))),
        row("learning rate", progress.learning_rate.map_or_else(none, figure)),
        row("time of an epoch", progress.seconds_per_epoch.map_or_else(none, duration)),
        Line::default(),
    ];
    if run.epochs.is_empty() {
        lines.push(Line::styled("no epoch is complete yet", Style::new().dim()));
    } else if progress.metrics.is_empty() {
        lines.push(Line::styled("no metric is measured yet", Style::new().dim()));
    }
    for metric in &progress.metrics {
        lines.push(row(&words(&metric.name), format!("{}  epoch {}", figure(metric.value), metric.epoch)));
        if let Some((best, epoch)) = metric.best {
            let mut line = row("  best", format!("{}  epoch {epoch}", figure(best)));
            line.spans[1].style = Style::new().bold();
            lines.push(line);
        }
    }
    if !progress.machine.is_empty() {
        lines.push(Line::default());
        lines.extend(progress.machine.iter().map(|(name, value)| row(name, format!("{value:.1}"))));
    }
    lines
}

fn charts(run: &Run, progress: &Progress) -> Vec<Chart> {
    let length = progress.epoch_length.unwrap_or(1).max(1) as f64;
    let epochs = |of: &dyn Fn(&hearth_report::run::Epoch) -> Option<f64>| {
        run.epochs.iter().filter_map(|epoch| Some((epoch.epoch as f64, of(epoch)?))).collect::<Vec<_>>()
    };
    let steps = || run.steps.iter().map(|step| (step.iteration as f64 / length, step.loss)).collect();
    let of_epochs = epochs(&|epoch| epoch.loss);
    let x = if progress.epoch_length.is_some() { "epoch" } else { "step" };
    let mut charts =
        vec![Chart { title: "loss".into(), x, points: if of_epochs.len() > 1 { of_epochs } else { steps() } }];
    for metric in &progress.metrics {
        charts.push(Chart {
            title: words(&metric.name),
            x: "epoch",
            points: epochs(&|epoch| epoch.metric(&metric.name)),
        });
    }
    charts.push(Chart { title: "learning rate".into(), x: "epoch", points: epochs(&|epoch| epoch.learning_rate) });
    charts.retain(|chart| chart.points.iter().filter(|(_, value)| value.is_finite()).count() > 1);
    charts
}
