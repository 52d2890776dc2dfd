//! A sliding window inferer that accumulates neighbouring windows in a small buffer before writing
//! them to the output.

use burn::tensor::{DType, Tensor};

use super::at_once::AtOnce;
use super::sliding_window::{Canvas, NAME, Scan, Window};
use super::{InferError, check_stop};

/// Sorts windows by their positions along the axis, and groups them by `steps` different positions.
fn groups(windows: &[Window], [steps, axis]: [usize; 2]) -> Vec<Vec<Window>> {
    let mut sorted = windows.to_vec();
    sorted.sort_by_key(|window| window[axis][0]);
    let places: Vec<&[Window]> = sorted.chunk_by(|a, b| a[axis][0] == b[axis][0]).collect();
    places.chunks(steps).map(<[_]>::concat).collect()
}

/// The output for a padded image. The windows of one network call belong to one group.
pub(super) fn infer(
    x: Tensor<5>,
    scan: &Scan,
    net: &dyn Fn(Tensor<5>) -> Vec<Tensor<5>>,
    mut at_once: AtOnce<'_>,
    [steps, axis]: [usize; 2],
) -> Result<Tensor<5>, InferError> {
    let channels = x.dims()[1];
    let groups = groups(&scan.windows, [steps, axis]);
    let mut canvas: Option<Canvas> = None;
    for item in 0..scan.batch {
        for group in &groups {
            let mut buffer: Option<Canvas> = None;
            let start = group.iter().map(|window| window[axis][0]).min().unwrap_or(0);
            let stop = group.iter().map(|window| window[axis][1]).max().unwrap_or(0);
            let mut rest = group.as_slice();
            while !rest.is_empty() {
                let (call, behind) = rest.split_at(at_once.size().min(rest.len()));
                let cut = call.iter().map(|[wx, wy, wz]| {
                    let [wx, wy, wz] = [wx, wy, wz].map(|[start, stop]| *start..*stop);
                    x.clone().slice([item..item + 1, 0..channels, wx, wy, wz])
                });
                let input = Tensor::cat(cut.collect(), 0);
                let window = input.dims();
                check_stop()?;
                let mut outputs = net(input);
                if at_once.exceeded(&outputs, call.len()) {
                    continue;
                }
                rest = behind;
                let [_, _, rx, ry, rz] = window;
                let wrong = |got: [usize; 5], expected: &str| {
                    Err(InferError::Output { inferer: NAME, window, got, expected: expected.to_owned() })
                };
                let got = outputs.first().map_or([0; 5], Tensor::dims);
                if outputs.len() != 1 {
                    return wrong(got, "buffer_steps works with one output");
                }
                if got[0] != call.len() || got[2..] != [rx, ry, rz] {
                    return wrong(got, "buffer_steps needs one output of the window's size for each window");
                }
                if canvas.is_none() {
                    canvas = scan.canvases(&outputs)?.into_iter().next();
                }
                let Some(whole) = &canvas else { return wrong(got, "expected an output") };
                let (output, weights) = (outputs.swap_remove(0).cast(DType::F32), whole.weights.clone());
                let buffer = buffer.get_or_insert_with(|| {
                    let [mut nx, mut ny, mut nz] = scan.padded;
                    *[&mut nx, &mut ny, &mut nz][axis] = stop - start;
                    let shape = [1, got[1], nx, ny, nz];
                    let values = Tensor::zeros(shape, (&output.device(), DType::F32));
                    Canvas { values, scale: None, weights: whole.weights.clone() }
                });
                for (row, window) in call.iter().enumerate() {
                    let mut place = *window;
                    place[axis] = place[axis].map(|at| at - start);
                    buffer.add(0, place, (&output, row), Some(&weights));
                }
            }
            if let (Some(canvas), Some(buffer)) = (&mut canvas, buffer) {
                let mut place: Window = scan.padded.map(|length| [0, length]);
                place[axis] = [start, stop];
                canvas.add(item, place, (&buffer.values, 0), None);
            }
        }
    }
    let canvas = canvas.ok_or_else(|| InferError::Output {
        inferer: NAME,
        window: x.dims(),
        got: [0; 5],
        expected: "expected an output".to_owned(),
    })?;
    Ok(scan.finish(canvas))
}
