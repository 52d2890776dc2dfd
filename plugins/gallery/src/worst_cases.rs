//! A Hearth plugin that draws the worst cases of each validation: the label green, the prediction red, both yellow.
//! In a recipe it has `engine = "validation"`.

use hearth_plugin::{Attachment, Context, Event, Handler, HandlerError, HostTensor, When, export_plugin, options};

options! {
    /// Options in a recipe.
    pub struct Options {
        /// The metric that decides, as the recipe names it.
        metric: String,
        /// Whether a high value of it is good.
        higher_is_better: bool = true,
        /// Number of cases.
        count: usize = 4,
    }
}

/// The worst cases so far, with what they are sorted by, their names and pictures.
pub struct WorstCases(pub Options, pub Vec<(f64, String, HostTensor<'static>)>);

/// Draws an item's slice with most of the label, `[H, W, 3]`; `tensors` are image, label, prediction.
fn draw(item: usize, tensors: &[(Vec<usize>, Vec<f32>); 3]) -> Result<HostTensor<'static>, HandlerError> {
    let same = tensors.iter().filter(|of| of.0.get(2..) == tensors[0].0.get(2..)).count();
    let ([_, c, w, h, d], 3) = (&tensors[0].0[..], same) else {
        return Err(HandlerError::new("image, label and prediction are not [N, C, X, Y, Z] of one size"));
    };
    // Whether the voxel `i` of a slice has a class other than the background.
    let inside = |of: usize, i: usize, z: usize| {
        let (shape, values) = &tensors[of];
        let at = |channel| values[((item * shape[1] + channel) * w * h + i) * d + z] > 0.5;
        if shape[1] == 1 { at(0) } else { (1..shape[1]).any(at) }
    };
    let z = (0..*d).max_by_key(|z| (0..w * h).filter(|i| inside(1, *i, *z)).count()).unwrap_or(0);
    let grey: Vec<f32> = (0..w * h).map(|i| tensors[0].1[(item * c * w * h + i) * d + z]).collect();
    let (low, high) = grey.iter().fold((f32::MAX, f32::MIN), |(low, high), v| (low.min(*v), high.max(*v)));
    let pixels = (0..*h).flat_map(|y| (0..*w).map(move |x| x * h + y)).flat_map(|i| {
        let grey = (grey[i] - low) / (high - low).max(f32::MIN_POSITIVE);
        let tint = |of| if inside(of, i, z) { 1.0 } else { grey };
        [tint(2), tint(1), grey]
    });
    Ok(HostTensor::from_f32(vec![*h, *w, 3], &pixels.collect::<Vec<f32>>())?)
}

impl Handler for WorstCases {
    fn name(&self) -> &str {
        "worst-cases"
    }

    fn subscriptions(&self) -> Vec<When> {
        vec![Event::IterationCompleted | Event::EpochCompleted]
    }

    fn handle(&mut self, event: Event, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        let Self(options, worst) = self;
        let sign = if options.higher_is_better { 1.0 } else { -1.0 };
        if event == Event::EpochCompleted {
            let mut table = format!("| case | {} |\n|---|---|\n", options.metric);
            for (place, (value, case, picture)) in std::mem::take(worst).into_iter().enumerate() {
                cx.host.attach(&format!("worst_{}", place + 1), &Attachment::Image(picture))?;
                table += &format!("| {case} | {:.4} |\n", sign * value);
            }
            return Ok(cx.host.attach("worst", &Attachment::Text(&table))?);
        }
        let (cases, rows) = (cx.host.cases(), cx.host.numbers(&options.metric)?);
        let mut read = |name| cx.host.tensor(name).and_then(|t| Ok((t.shape.clone(), t.to_f32()?)));
        let tensors = [read("image")?, read("label")?, read("pred")?];
        for (item, (case, row)) in cases.into_iter().zip(rows).enumerate() {
            let (sum, count) = row.iter().filter(|v| !v.is_nan()).fold((0.0, 0.0), |(sum, n), v| (sum + v, n + 1.0));
            worst.push((sign * sum / count, case, draw(item, &tensors)?));
        }
        worst.retain(|(value, ..)| !value.is_nan());
        worst.sort_by(|a, b| a.0.total_cmp(&b.0));
        worst.truncate(options.count);
        Ok(())
    }
}

export_plugin!("worst-cases", Options, |options| WorstCases(options, Vec::new()), needs: [FILES]);
