//! Pictures as small PNG files: at most 256 colours.

use std::collections::{BTreeMap, BTreeSet};

use hearth_pictures::{Canvas, Rgb};

use super::terminal::MARGIN;
use crate::Outcome;

/// A picture as PNG with at most 256 colours; those of a picture with more are merged, the most
/// different ones last.
pub(super) fn encode(picture: &Canvas) -> Outcome<Vec<u8>> {
    let pixels: Vec<Rgb> =
        (0..picture.height()).flat_map(|y| (0..picture.width()).map(move |x| picture.get(x, y))).collect();
    let mut counts = BTreeMap::<Rgb, f64>::new();
    pixels.iter().for_each(|colour| *counts.entry(*colour).or_default() += 1.0);
    let mut groups = vec![Group::new(counts.into_iter().collect())];
    while groups.len() < 256 {
        let widest = (0..groups.len()).max_by(|a, b| groups[*a].spread.total_cmp(&groups[*b].spread));
        let Some(at) = widest.filter(|at| groups[*at].colours.len() > 1) else { break };
        let group = groups.swap_remove(at);
        let (low, high) = (group.colours.iter())
            .partition(|(colour, _)| f64::from(colour[group.channel]) <= group.mean[group.channel]);
        groups.extend([Group::new(low), Group::new(high)]);
    }
    let palette = groups.iter().flat_map(|group| group.mean.map(|part| part.round() as u8)).collect::<Vec<u8>>();
    let indices: BTreeMap<Rgb, u8> = (0..=u8::MAX)
        .zip(&groups)
        .flat_map(|(index, group)| group.colours.iter().map(move |(colour, _)| (*colour, index)))
        .collect();
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, picture.width().try_into()?, picture.height().try_into()?);
    encoder.set_color(png::ColorType::Indexed);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_palette(palette);
    encoder.set_compression(png::Compression::High);
    encoder.set_filter(png::Filter::NoFilter);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&pixels.iter().map(|colour| indices[colour]).collect::<Vec<u8>>())?;
    writer.finish()?;
    Ok(file)
}

/// Colours of a picture that may become one, with the number of their pixels.
struct Group {
    colours: Vec<(Rgb, f64)>,
    mean: [f64; 3],
    /// The channel in which the colours differ most, and their squared distance from its mean in total.
    channel: usize,
    spread: f64,
}

impl Group {
    fn new(colours: Vec<(Rgb, f64)>) -> Self {
        let all: f64 = colours.iter().map(|(_, count)| count).sum();
        let sum = |part: &dyn Fn(f64) -> f64, c: usize| -> f64 {
            colours.iter().map(|(colour, count)| part(f64::from(colour[c])) * count).sum()
        };
        let mean: [f64; 3] = std::array::from_fn(|c| sum(&|value| value, c) / all);
        let spreads: [f64; 3] = std::array::from_fn(|c| sum(&|value| (value - mean[c]).powi(2), c));
        let channel = (0..3).max_by(|a, b| spreads[*a].total_cmp(&spreads[*b])).unwrap_or(0);
        Self { colours, mean, channel, spread: spreads[channel] }
    }
}

/// Reads a PNG of Chromium, without the empty rows at its end.
pub(super) fn decode(file: &[u8]) -> Outcome<Canvas> {
    let mut decoder = png::Decoder::new(std::io::Cursor::new(file));
    decoder.set_transformations(png::Transformations::normalize_to_color8() | png::Transformations::ALPHA);
    let mut reader = decoder.read_info()?;
    let mut bytes = vec![0; reader.output_buffer_size().ok_or("a picture without a size")?];
    let frame = reader.next_frame(&mut bytes)?;
    if frame.color_type != png::ColorType::Rgba {
        return Err(format!("a picture of {:?}; expected colours", frame.color_type).into());
    }
    let (width, height) = (frame.width as usize, frame.height as usize);
    let pixels: Vec<Rgb> = bytes.chunks_exact(4).map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect();
    let is_empty = |row: &[Rgb]| row.iter().collect::<BTreeSet<_>>().len() == 1;
    let used = pixels.chunks(width).rposition(|row| !is_empty(row)).map_or(height, |last| last + 1);
    let rows = height.min(used + MARGIN);
    let mut canvas = Canvas::new(width, rows, [255; 3]);
    pixels.iter().take(width * rows).enumerate().for_each(|(at, pixel)| canvas.set(at % width, at / width, *pixel));
    Ok(canvas)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decoder_reads_all_of_few_colours_and_nearly_those_of_many() {
        let read = |picture: &Canvas| decode(&encode(picture).unwrap()).unwrap();
        let mut few = Canvas::new(40, 6, [18, 18, 22]);
        (0..40).for_each(|x| few.set(x, 3, [x as u8 * 6, 255 - x as u8, 7]));
        few.set(1, 5, [1, 2, 3]);
        let same = read(&few);
        assert!((0..40).all(|x| (0..6).all(|y| few.get(x, y) == same.get(x, y))));
        let mut many = Canvas::new(256, 64, [255; 3]);
        (0..256 * 64).for_each(|at| many.set(at % 256, at / 256, [(at % 256) as u8, (at / 256 * 4) as u8, 90]));
        let near = read(&many);
        let distance = |x: usize, y: usize| (0..3).map(|c| many.get(x, y)[c].abs_diff(near.get(x, y)[c])).max();
        assert!((0..256).all(|x| (0..64).all(|y| distance(x, y) < Some(24))));
    }

    #[test]
    fn rows_without_content_at_the_end_of_a_page_are_cut() {
        let mut page = Canvas::new(50, 400, [255; 3]);
        page.set(20, 100, [0; 3]);
        assert_eq!(decode(&encode(&page).unwrap()).unwrap().height(), 101 + MARGIN);
    }
}
