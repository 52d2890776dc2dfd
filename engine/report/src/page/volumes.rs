//! The volume viewers, with three planes.

use hearth_pictures::colours;
use maud::{Markup, html};

use super::{View, name};
use crate::text::figure;
use crate::volumes::Embedded;

/// The planes: names, the axis across, the axes of columns and rows, and the letters at the left,
/// right, top and bottom, in the radiological convention.
const PLANES: [(&str, usize, [usize; 2], [&str; 4]); 3] = [
    ("axial", 2, [0, 1], ["R", "L", "A", "P"]),
    ("coronal", 1, [0, 2], ["R", "L", "S", "I"]),
    ("sagittal", 0, [1, 2], ["A", "P", "S", "I"]),
];

/// The viewers; `None` if there are no volumes.
pub fn show(view: &View<'_>) -> Option<Markup> {
    if view.volumes.is_empty() {
        return None;
    }
    Some(html! {
        @for (place, volume) in view.volumes.iter().enumerate() { (one(view, place, volume)) }
        p.aside {
            "Click or drag in a plane to go there in the others. With a plane chosen: arrow keys up and down for slices, "
            "Page Up and Page Down for ten, Home and End for the first and the last; left and right for the window's width, "
            "with Shift for its centre."
        }
    })
}

fn one(view: &View<'_>, place: usize, volume: &Embedded) -> Markup {
    let list = |values: &[String]| values.join(",");
    let numbers = |values: [f64; 3]| list(&values.map(|value| value.to_string()));
    let [low, high] = volume.range;
    let [black, white] = volume.window;
    let colour = |class: usize| {
        let [r, g, b] = colours::of_class(class);
        format!("#{r:02x}{g:02x}{b:02x}")
    };
    let run = &view.runs[volume.run];
    let reduced = volume.factors != [1; 3];
    html! {
        figure.viewer id=(format!("volume-{place}"))
            data-size=(list(&volume.size.map(|side| side.to_string())))
            data-spacing=(numbers(volume.spacing))
            data-range=(format!("{low},{high}"))
            data-window=(format!("{black},{white}")) {
            figcaption {
                strong { (volume.case) }
                @if view.several() { " " (name(volume.run, run)) }
                @if reduced {
                    span.aside { " " (format!("a voxel here is {}", volume.factors.map(|n| n.to_string()).join(" x "))) " of the volume" }
                }
                p.needs.aside { "Looking through a volume needs scripts, and a browser of 2023 or later." }
            }
            div.planes {
                @for (plane, across, [columns, rows], letters) in PLANES {
                    div.plane {
                        div.screen {
                            canvas tabindex="0" role="img" aria-label=(format!("{plane} plane of {}", volume.case))
                                data-plane=(plane) data-axes=(format!("{across},{columns},{rows}")) {}
                            @for (side, letter) in ["left", "right", "top", "bottom"].iter().zip(letters) {
                                span class=(format!("side {side}")) aria-hidden="true" { (letter) }
                            }
                        }
                        label { (plane) " " input type="range" min="0" max=(volume.size[across] - 1) step="1" disabled; }
                    }
                }
            }
            div.controls {
                label { "Centre " input type="range" data-role="centre" min=(low) max=(high) step=((high - low) / 255.0) disabled; }
                label { "Width " input type="range" data-role="width" min=((high - low) / 255.0) max=(high - low)
                    step=((high - low) / 255.0) disabled; }
                @if !volume.layers.is_empty() {
                    label { "Fill " input type="range" data-role="fill" min="0" max="1" step="0.05" value="0.25" disabled; }
                }
                @for (number, (layer, _)) in volume.layers.iter().enumerate() {
                    label { input type="checkbox" checked data-role="layer" data-layer=(number) disabled; " " (layer)
                        @if number == 0 { " (solid)" } @else { " (dashed)" } }
                }
            }
            @if !volume.layers.is_empty() {
                ul.classes {
                    @for (class, name) in volume.classes.iter().enumerate().skip(1) {
                        li data-class=(class) data-colour=(colour(class)) {
                            svg width="12" height="12" aria-hidden="true" { rect width="12" height="12" fill=(colour(class)) {} }
                            " " span { (name) }
                        }
                    }
                }
            }
            p.reading { output {} }
            div.packed hidden {
                div data-part="values" { (volume.values) }
                @for (layer, map) in &volume.layers { div data-part="layer" data-name=(layer) { (map) } }
            }
            p.hidden { (format!("Black is {}, white {}.", figure(f64::from(black)), figure(f64::from(white)))) }
        }
    }
}
