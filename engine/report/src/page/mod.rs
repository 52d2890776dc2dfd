//! The page: its frame, and a section for each subject for which the runs have files.

mod cases;
mod compare;
mod confusion;
mod curves;
mod environment;
mod gaps;
pub mod live;
mod machine;
mod pictures;
mod recipe;
mod remarks;
mod spread;
mod table;
mod time;
mod verdict;
mod volumes;
mod warnings;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::palette;
use crate::pictures::Embedded;
use crate::remarks::Remark;
use crate::run::Run;
use crate::svg::Glyph;
use crate::volumes::Embedded as Volume;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");
const VIEWER: &str = include_str!("viewer.js");

/// Nothing may be fetched, whatever names and captions contain.
const POLICY: &str = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; \
     form-action 'none'";

/// The content of a page.
pub struct View<'a> {
    /// The runs.
    pub runs: &'a [Run],
    /// The page's title.
    pub title: &'a str,
    /// Pictures of cases.
    pub pictures: &'a [Embedded],
    /// Volumes of cases.
    pub volumes: &'a [Volume],
    /// Notes about pictures and volumes that are left out.
    pub left_out: &'a [String],
    /// Remarks on predictions.
    pub remarks: &'a [Remark],
}

impl View<'_> {
    /// Whether the page has several runs.
    fn several(&self) -> bool {
        self.runs.len() > 1
    }

    /// Each run with its index.
    fn each(&self) -> impl Iterator<Item = (usize, &Run)> {
        self.runs.iter().enumerate()
    }

    /// A part of each run that has one; with the run's name above if there are several.
    fn per_run(&self, part: impl Fn(usize, &Run) -> Option<Markup>) -> Option<Markup> {
        let parts: Vec<(usize, &Run, Markup)> =
            self.each().filter_map(|(place, run)| Some((place, run, part(place, run)?))).collect();
        if parts.is_empty() {
            return None;
        }
        Some(html! {
            @for (number, (place, run, part)) in parts.iter().enumerate() {
                @if self.several() {
                    details.run open[number == 0] { summary { h3 { (name(*place, run)) } } (part) }
                } @else {
                    (part)
                }
            }
        })
    }
}

/// A run's name with its shape and colour.
fn name(place: usize, run: &Run) -> Markup {
    html! { span.who { (Glyph::of_run(place).icon(&palette::class(place))) " " (run.name) } }
}

/// A section of the page.
struct Section {
    /// Its anchor.
    id: &'static str,
    /// Its heading.
    title: &'static str,
    /// Its content.
    body: Markup,
}

fn section(id: &'static str, title: &'static str, body: Option<Markup>) -> Option<Section> {
    body.map(|body| Section { id, title, body })
}

/// The parts of a page around its sections.
struct Frame<'a> {
    /// The title in the browser.
    title: String,
    /// The content security policy.
    policy: &'a str,
    /// The part above the sections.
    header: Markup,
    /// The sections that have content.
    sections: Vec<Section>,
    /// The part below the sections.
    footer: Markup,
    /// The version in the body, for the script.
    version: Option<&'a str>,
    /// The scripts, joined.
    script: &'a str,
}

/// The whole page of a report.
pub fn whole(view: &View<'_>) -> String {
    let sections = [
        section("comparison", "Comparison", compare::runs(view)),
        section("gaps", "What is missing", gaps::show(view)),
        section("curves", "Curves", curves::show(view)),
        section("cases", "Cases, the worst first", cases::show(view)),
        section("distribution", "Distribution over cases", spread::show(view)),
        section("confusion", "Confusion", confusion::show(view)),
        section("remarks", "Remarks on predictions", remarks::show(view)),
        section("pictures", "Pictures", pictures::show(view)),
        section("volumes", "Volumes", volumes::show(view)),
        section("warnings", "Warnings", warnings::show(view)),
        section("time", "Time", time::show(view)),
        section("machine", "Machine", machine::show(view)),
        section("recipe", "Recipe", recipe::show(view)),
        section("environment", "Environment and files", environment::show(view)),
    ];
    let header = html! {
        h1 { (view.title) }
        @for (place, run) in view.each().filter(|_| !view.several()) { (verdict::show(place, run)) }
        @if view.several() { (compare::verdict(view)) }
    };
    let footer = html! {
        p { "Made by hearth " (env!("CARGO_PKG_VERSION")) " from "
            @for (place, run) in view.each() {
                @if place > 0 { ", " } code { (run.folder.display().to_string()) }
            }
            ". This file needs no network; it can be kept and sent by itself."
        }
    };
    let title = format!("{} – Hearth report", view.title);
    let sections = sections.into_iter().flatten().collect();
    let script = if view.volumes.is_empty() { SCRIPT.to_owned() } else { format!("{SCRIPT}{VIEWER}") };
    document(Frame { title, policy: POLICY, header, sections, footer, version: None, script: &script })
}

fn document(frame: Frame<'_>) -> String {
    let Frame { title, policy, header, sections, footer, version, script } = frame;
    let style = format!(
        ":root{{{}}}@media (prefers-color-scheme:dark){{:root{{{}}}}}{STYLE}",
        palette::variables(false),
        palette::variables(true)
    );
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="color-scheme" content="light dark";
                meta name="robots" content="noindex";
                title { (title) }
                style { (PreEscaped(style)) }
            }
            body data-version=[version] {
                a.skip href="#main" { "Skip to the content" }
                header { (header) }
                nav aria-label="Sections" {
                    ul { @for section in &sections { li { a href=(format!("#{}", section.id)) { (section.title) } } } }
                }
                main id="main" tabindex="-1" {
                    @for section in &sections {
                        section id=(section.id) aria-labelledby=(format!("{}-h", section.id)) {
                            h2 id=(format!("{}-h", section.id)) { (section.title) }
                            (section.body)
                        }
                    }
                }
                footer { (footer) }
                script { (PreEscaped(script)) }
            }
        }
    };
    // HTML and the XML of drawings do not allow other control characters, which a name may contain.
    let odd = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    page.into_string().replace(odd, "\u{fffd}")
}
