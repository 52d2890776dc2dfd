//! Limits the structures, other than samples, that a JPEG 2000 code stream makes a decoder
//! allocate. Tiles, precincts and code-blocks (with an entry for each layer) take up to hundreds of
//! bytes each, and a header of a few bytes can request one of them per sample. Therefore they are
//! counted before decoding.

#![forbid(unsafe_code)]

/// The number of a tile has 16 bits.
const MAX_TILES: u64 = 1 << 16;

/// The smallest number of samples of a code-block per layer: 4 x 4 samples are enough for two
/// layers, 16 x 16 for more layers than decoders support.
const SAMPLES_PER_LAYER: u32 = 8;

const SIZ: u8 = 0x51;
const COD: u8 = 0x52;
const COC: u8 = 0x53;
const QCD: u8 = 0x5c;
const QCC: u8 = 0x5d;
const RGN: u8 = 0x5e;
const SOT: u8 = 0x90;
const SOD: u8 = 0x93;
const EOC: u8 = 0xd9;

/// Checks a code stream, starting at its first marker (SOC).
///
/// # Errors
/// If the stream is damaged, or has a size that its bytes cannot hold.
pub fn check(stream: &[u8]) -> Result<(), String> {
    let damaged = || "the headers of the code stream are damaged".to_owned();
    let segments = segments(stream).ok_or_else(damaged)?;
    let size = segments.first().filter(|s| s.0 == SIZ).and_then(|s| Size::new(s.1)).ok_or_else(damaged)?;
    if size.tiles > MAX_TILES {
        return Err(format!("{} tiles; the maximum is {MAX_TILES}", size.tiles));
    }
    let (mut layers, mut block) = (1, u32::MAX);
    for (marker, content) in &segments {
        let (components, style) = match (*marker, *content) {
            (COD, [flags, _, high, low, _, rest @ ..]) => {
                layers = layers.max(u32::from(u16::from_be_bytes([*high, *low])));
                (size.components, Style::new(*flags, rest))
            }
            (COC, content) => {
                let (index, style) = content.split_at_checked(size.index_bytes()).ok_or_else(damaged)?;
                let index = index.iter().fold(0, |index, byte| index << 8 | usize::from(*byte));
                let component = size.components.get(index..=index).ok_or_else(damaged)?;
                (component, style.split_first().and_then(|(flags, rest)| Style::new(*flags, rest)))
            }
            (COD, _) => return Err(damaged()),
            _ => continue,
        };
        let style = style.ok_or_else(damaged)?;
        block = block.min(style.block);
        let precincts = components.iter().map(|c| style.precincts(size.tile, *c)).fold(0, u64::saturating_add);
        // Each precinct has at least one packet of at least one byte.
        if precincts > stream.len() as u64 {
            return Err(format!("{precincts} precincts in a tile cannot be in {} bytes", stream.len()));
        }
    }
    if block / SAMPLES_PER_LAYER < layers {
        return Err(format!("code-blocks of {block} samples in {layers} layers are not supported"));
    }
    Ok(())
}

/// The content of SIZ.
struct Size<'a> {
    /// Width and height of a tile on the reference grid, at most those of the image.
    tile: [u64; 2],
    tiles: u64,
    /// The depth, and the steps along x and y, of each component.
    components: &'a [[u8; 3]],
}

impl<'a> Size<'a> {
    fn new(content: &'a [u8]) -> Option<Self> {
        let (words, components) = content.get(2..)?.split_at_checked(34)?;
        let word = |i: usize| words.get(4 * i..4 * i + 4)?.try_into().ok().map(u32::from_be_bytes).map(u64::from);
        let components = components.as_chunks::<3>().0;
        let axis = |i: usize| {
            let (end, begin, tile, first) = (word(i)?, word(2 + i)?, word(4 + i)?, word(6 + i)?);
            let image = end.checked_sub(begin)?;
            let tiles = end.checked_sub(first)?.checked_add(tile.checked_sub(1)?)? / tile;
            Some((image.min(tile), tiles))
        };
        let ((width, across), (height, down)) = (axis(0)?, axis(1)?);
        Some(Size { tile: [width, height], tiles: across.checked_mul(down)?, components })
    }

    /// The number of bytes of a component's index.
    fn index_bytes(&self) -> usize {
        index_bytes(self.components.len())
    }
}

fn index_bytes(components: usize) -> usize {
    if components < 257 { 1 } else { 2 }
}

/// The content of COD or COC.
struct Style<'a> {
    levels: u32,
    /// The number of samples of a code-block.
    block: u32,
    /// The exponents of the size of precincts at each resolution; 15 if empty.
    precincts: &'a [u8],
}

impl<'a> Style<'a> {
    fn new(flags: u8, rest: &'a [u8]) -> Option<Self> {
        let [levels @ 0..=32, width @ 0..=8, height @ 0..=8, _, _, precincts @ ..] = rest else { return None };
        let wanted = if flags & 1 == 1 { usize::from(*levels) + 1 } else { 0 };
        let block = 1 << (width + height + 4);
        (precincts.len() == wanted).then_some(Style { levels: u32::from(*levels), block, precincts })
    }

    /// The smallest number of precincts of a component in a tile.
    fn precincts(&self, tile: [u64; 2], [_, x, y]: [u8; 3]) -> u64 {
        let resolution = |r: u32| {
            let exponents = self.precincts.get(r as usize).copied().unwrap_or(0xff);
            let count = |length: u64, step: u8, exponent: u8| {
                ((length / u64::from(step.max(1))) >> (self.levels - r)).div_ceil(1 << exponent)
            };
            count(tile[0], x, exponents & 15).saturating_mul(count(tile[1], y, exponents >> 4))
        };
        (0..=self.levels).map(resolution).fold(0, u64::saturating_add)
    }
}

/// The marker segments of the main header and of all tile parts' headers: marker and content.
/// `None` if a segment's length does not match its content, or exceeds the stream: a decoder could
/// then see other segments than this function.
fn segments(stream: &[u8]) -> Option<Vec<(u8, &[u8])>> {
    let mut found = Vec::new();
    let mut components = 0;
    let (mut at, mut next_part) = (2, stream.len());
    while let Some([0xff, marker]) = stream.get(at..at + 2) {
        match *marker {
            // Markers without content.
            0x30..=0x3f => at += 2,
            SOD | EOC if next_part > at => at = next_part,
            SOD | EOC => break,
            marker => {
                let length = stream.get(at + 2..at + 4).map(|l| usize::from(u16::from_be_bytes([l[0], l[1]])));
                // Decoders read most segments without checking the length.
                let content = stream.get(at + 4..at + 2 + length?)?;
                let index = index_bytes(components);
                let sound = match marker {
                    SIZ => {
                        components = usize::from(u16::from_be_bytes([*content.get(34)?, *content.get(35)?]));
                        content.len() == 36 + 3 * components
                    }
                    SOT => content.len() == 8,
                    RGN => content.len() == index + 2,
                    QCD => has_steps(content),
                    QCC => content.get(index..).is_some_and(has_steps),
                    _ => true,
                };
                if !sound {
                    return None;
                }
                if marker == SOT {
                    let part = u32::from_be_bytes([content[2], content[3], content[4], content[5]]) as usize;
                    next_part = if part == 0 { stream.len() } else { at + part };
                }
                found.push((marker, content));
                at += 4 + content.len();
            }
        }
    }
    Some(found)
}

/// Whether QCD or QCC has the number of bytes of quantization steps that its style requires.
fn has_steps(content: &[u8]) -> bool {
    match content {
        [style, steps @ ..] if style & 31 == 1 => steps.len() == 2,
        [style, steps @ ..] if style & 31 == 2 => steps.len() % 2 == 0,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(marker: u8, content: &[u8]) -> Vec<u8> {
        [&[0xff, marker], &(content.len() as u16 + 2).to_be_bytes()[..], content].concat()
    }

    fn siz(image: u32, tile: u32) -> Vec<u8> {
        let words = [image, image, 0, 0, tile, tile, 0, 0].map(u32::to_be_bytes);
        segment(SIZ, &[&[0, 0], words.as_flattened(), &[0, 1, 7, 1, 1]].concat())
    }

    /// Layers, levels, exponents of the size of code-blocks minus 2, exponents of that of
    /// precincts.
    fn cod(layers: u8, levels: u8, block: u8, precincts: &[u8]) -> Vec<u8> {
        let flags = u8::from(!precincts.is_empty());
        segment(COD, &[&[flags, 0, 0, layers, 0, levels, block, block, 0, 1], precincts].concat())
    }

    fn stream(siz: Vec<u8>, header: &[Vec<u8>], tile_header: &[Vec<u8>]) -> Vec<u8> {
        let body = [tile_header.concat(), vec![0xff, SOD], vec![0; 100]].concat();
        let part = [&[0, 0], &(body.len() as u32 + 12).to_be_bytes()[..], &[0, 1]].concat();
        [vec![0xff, 0x4f], siz, header.concat(), segment(SOT, &part), body, vec![0xff, EOC]].concat()
    }

    fn told(stream: &[u8], what: &str) {
        let error = check(stream).expect_err(what);
        assert!(error.contains(what), "{error} does not say {what}");
    }

    #[test]
    fn usual_streams_pass() {
        assert_eq!(check(&stream(siz(4096, 4096), &[cod(1, 5, 4, &[])], &[])), Ok(()));
        assert_eq!(check(&stream(siz(4096, 256), &[cod(12, 5, 3, &[])], &[])), Ok(()));
        assert_eq!(check(&stream(siz(256, 256), &[cod(2, 2, 4, &[0x44, 0x55, 0x66])], &[])), Ok(()));
    }

    #[test]
    fn what_few_bytes_can_not_hold_is_told() {
        told(&stream(siz(4096, 4), &[cod(1, 0, 4, &[])], &[]), "1048576 tiles");
        told(&stream(siz(4096, 4096), &[cod(1, 0, 4, &[0x00])], &[]), "16777216 precincts");
        told(&stream(siz(4096, 4096), &[cod(32, 5, 0, &[])], &[]), "code-blocks of 16 samples in 32 layers");
        // In the header of a tile, and of a component.
        let usual = cod(1, 0, 4, &[]);
        told(&stream(siz(4096, 4096), std::slice::from_ref(&usual), &[cod(1, 0, 4, &[0x11])]), "4194304 precincts");
        let component = segment(COC, &[0, 1, 0, 4, 4, 0, 1, 0x22]);
        told(&stream(siz(4096, 4096), &[usual.clone(), component], &[]), "1048576 precincts");
        told(&stream(siz(4096, 4096), &[usual, segment(COC, &[1, 0, 0, 4, 4, 0, 1])], &[]), "damaged");
    }

    #[test]
    fn lengths_that_hide_a_segment_are_told() {
        let hidden = cod(1, 0, 4, &[0x00]);
        for marker in [RGN, QCD, QCC, COD] {
            let hiding = segment(marker, &[&[0x01, 0x01, 0x00, 0x00][..], &hidden].concat());
            told(&stream(siz(4096, 4096), &[cod(1, 0, 4, &[]), hiding], &[]), "damaged");
        }
    }

    #[test]
    fn lengths_beyond_the_stream_are_told() {
        for marker in [COD, COC, QCD, 0x64] {
            let mut beyond = segment(marker, &[0, 0, 0, 32, 0, 5, 0, 0, 0, 1]);
            beyond[2..4].copy_from_slice(&[0xff, 0xfe]);
            told(&stream(siz(4096, 4096), &[cod(1, 5, 4, &[]), beyond], &[]), "damaged");
        }
    }

    #[test]
    fn any_cut_is_an_error_or_sound() {
        let whole = stream(siz(64, 64), &[cod(1, 0, 4, &[0x44])], &[cod(1, 0, 4, &[0x44])]);
        (0..whole.len()).for_each(|end| drop(check(&whole[..end])));
        for (place, value) in (0..whole.len()).flat_map(|place| [0, 1, 0x7f, 0xff].map(|value| (place, value))) {
            let mut changed = whole.clone();
            changed[place] = value;
            let _ = check(&changed);
        }
    }
}
