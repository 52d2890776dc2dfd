//! The grid of an array: its chunks, and their blocks; where each value of a chunk belongs.

use std::fmt;

use super::fields::Fields;

/// The maximum number of axes. Shapes with fewer axes are preceded by axes of length 1.
const AXES: usize = 8;

/// The maximum number of values of an array.
const MAX_VALUES: usize = 8 << 30;

/// The maximum length of a type's name; those of numeric types have three bytes.
const LONGEST: usize = 64;

/// One number for each axis.
type Index = [usize; AXES];

/// The shapes of an array, its chunks and their blocks.
#[derive(Debug)]
pub(super) struct Grid {
    axes: usize,
    shape: Index,
    chunk: Index,
    block: Index,
    /// The number of chunks of the array along each axis.
    chunks: Index,
    /// The number of blocks of a chunk along each axis.
    blocks: Index,
    /// NumPy's name of the value type.
    pub value_type: String,
}

impl Grid {
    /// Reads the metalayer `b2nd`.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let mut fields = Fields::new(bytes);
        let count = fields.byte()?;
        if count & 0x0f < 7 {
            return Err("an array without the type of its values, as early versions of Blosc2 wrote it".to_owned());
        }
        fields.byte()?;
        let axes = usize::from(fields.byte()?);
        if axes == 0 || axes > AXES {
            return Err(format!("an array of {axes} axes; 1 to {AXES} are read"));
        }
        let (mut shape, mut chunk, mut block) = ([1; AXES], [1; AXES], [1; AXES]);
        let array = Fields::SHORT_ARRAY | axes as u8;
        fields.tag(array)?;
        for length in &mut shape[AXES - axes..] {
            fields.tag(Fields::INT64)?;
            *length = usize::try_from(fields.long()?).map_err(|_| "an axis that is too long")?;
        }
        for lengths in [&mut chunk, &mut block] {
            fields.tag(array)?;
            for length in &mut lengths[AXES - axes..] {
                fields.tag(Fields::INT32)?;
                *length = fields.size()?;
            }
        }
        // The format of the type's name: 0, NumPy's, is the only one.
        fields.tag(0)?;
        fields.tag(Fields::STR32)?;
        let length = fields.size()?;
        if length > LONGEST {
            return Err(format!("a type of values whose name has {length} bytes"));
        }
        let value_type = String::from_utf8_lossy(fields.bytes(length)?).into_owned();
        if [shape, chunk, block].as_flattened().contains(&0) {
            let shape = &shape[AXES - axes..];
            return Err(format!("an array of shape {shape:?} without values, or in chunks without any"));
        }
        let chunks = std::array::from_fn(|axis| shape[axis].div_ceil(chunk[axis]));
        let blocks = std::array::from_fn(|axis| chunk[axis].div_ceil(block[axis]));
        let grid = Grid { axes, shape, chunk, block, chunks, blocks, value_type };
        // The products below these limits do not overflow later.
        let all = |lengths: &[Index]| {
            let product = lengths.as_flattened().iter().try_fold(1_usize, |all, length| all.checked_mul(*length));
            product.filter(|all| *all <= MAX_VALUES).is_some()
        };
        if all(&[shape]) && all(&[chunks]) && all(&[blocks, block]) {
            return Ok(grid);
        }
        Err(format!("{grid} is over the limit of {MAX_VALUES} values"))
    }

    /// The shape of the array.
    pub fn shape(&self) -> &[usize] {
        &self.shape[AXES - self.axes..]
    }

    /// The number of values.
    pub fn values(&self) -> usize {
        self.shape.iter().product()
    }

    /// The number of chunks.
    pub fn chunks(&self) -> usize {
        self.chunks.iter().product()
    }

    /// The number of values of each chunk, including the padding of its blocks.
    pub fn chunk_values(&self) -> usize {
        self.blocks.iter().chain(&self.block).product()
    }

    /// Copies the values of a chunk, block by block, into the array.
    pub fn place(&self, number: usize, chunk: &[u8], size: usize, array: &mut [u8]) {
        const LAST: usize = AXES - 1;
        let place = position(number, &self.chunks);
        let start: Index = std::array::from_fn(|axis| place[axis] * self.chunk[axis]);
        // Chunks at the end of the array, and blocks at the end of a chunk, are padded.
        let end: Index = std::array::from_fn(|axis| self.shape[axis].min(start[axis] + self.chunk[axis]));
        let mut lines = self.block;
        lines[LAST] = 1;
        let line_bytes = self.block[LAST] * size;
        let block_bytes = lines.iter().product::<usize>() * line_bytes;
        for (number, block) in chunk.chunks_exact(block_bytes).enumerate() {
            let place = position(number, &self.blocks);
            let from: Index = std::array::from_fn(|axis| start[axis] + place[axis] * self.block[axis]);
            if (0..AXES).any(|axis| from[axis] >= end[axis]) {
                continue;
            }
            let width = self.block[LAST].min(end[LAST] - from[LAST]) * size;
            for (number, line) in block.chunks_exact(line_bytes).enumerate() {
                let place = position(number, &lines);
                let at: Index = std::array::from_fn(|axis| from[axis] + place[axis]);
                if (0..AXES).any(|axis| at[axis] >= end[axis]) {
                    continue;
                }
                let at = at.iter().zip(&self.shape).fold(0, |all, (at, length)| all * length + at);
                array[at * size..][..width].copy_from_slice(&line[..width]);
            }
        }
    }
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own = AXES - self.axes..;
        let (chunk, block) = (&self.chunk[own.clone()], &self.block[own.clone()]);
        write!(f, "an array of shape {:?} in chunks of {chunk:?} and blocks of {block:?}", &self.shape[own])
    }
}

/// The position of an item by its number, with the last axis the fastest.
fn position(mut number: usize, lengths: &Index) -> Index {
    let mut place = [0; AXES];
    for (place, length) in place.iter_mut().zip(lengths).rev() {
        (*place, number) = (number % length, number / length);
        if number == 0 {
            break;
        }
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The metalayer of an array of bytes.
    fn metalayer(shape: &[i64], chunk: &[i32], block: &[i32]) -> Vec<u8> {
        let array = 0x90 | shape.len() as u8;
        let mut bytes = vec![0x97, 0, shape.len() as u8, array];
        shape.iter().for_each(|length| bytes.extend([&[0xd3][..], &length.to_be_bytes()].concat()));
        for lengths in [chunk, block] {
            bytes.push(array);
            lengths.iter().for_each(|length| bytes.extend([&[0xd2][..], &length.to_be_bytes()].concat()));
        }
        bytes.extend(b"\x00\xdb\0\0\0\x03|u1");
        bytes
    }

    #[test]
    fn each_value_finds_its_place() {
        // Chunks of 2 x 3 in blocks of 1 x 2: each row of a chunk is padded to four values.
        let grid = Grid::parse(&metalayer(&[3, 5], &[2, 3], &[1, 2])).expect("a grid");
        assert_eq!((grid.shape(), grid.chunks(), grid.chunk_values()), (&[3, 5][..], 4, 8));
        let mut array = [0; 15];
        grid.place(0, &[1, 2, 3, 99, 6, 7, 8, 99], 1, &mut array);
        grid.place(1, &[4, 5, 99, 99, 9, 10, 99, 99], 1, &mut array);
        grid.place(2, &[11, 12, 13, 99, 99, 99, 99, 99], 1, &mut array);
        grid.place(3, &[14, 15, 99, 99, 99, 99, 99, 99], 1, &mut array);
        assert_eq!(array, std::array::from_fn::<u8, 15, _>(|at| at as u8 + 1));
    }

    #[test]
    fn shapes_that_cannot_be_are_refused() {
        let error = |shape: &[i64], chunk: &[i32], block: &[i32]| {
            Grid::parse(&metalayer(shape, chunk, block)).expect_err("no grid")
        };
        assert!(error(&[0, 5], &[2, 3], &[1, 2]).contains("without values"));
        assert!(error(&[3, 5], &[2, 0], &[1, 2]).contains("without values"));
        assert!(error(&[-3, 5], &[2, 3], &[1, 2]).contains("a size of -3"));
        assert!(error(&[i64::MAX, i64::MAX], &[1, 1], &[1, 1]).contains("over the limit"));
        assert!(error(&[3, 5], &[i32::MAX, i32::MAX], &[1, 1]).contains("over the limit"));
        assert!(error(&[1; 9], &[1; 9], &[1; 9]).contains("9 axes"));
        let whole = metalayer(&[3, 5], &[2, 3], &[1, 2]);
        for end in 0..whole.len() {
            assert!(Grid::parse(&whole[..end]).is_err(), "{end}");
        }
    }
}
