//! The files of the voxels that a header of NRRD or MetaImage names: one, a numbered series, or a list.

use std::io::{BufRead, Read};
use std::path::{Component, Path, PathBuf};

use super::ReadError;

/// The maximum number of files of an image, and of bytes of a name.
const MAX_FILES: usize = 1 << 17;
const MAX_NAME: u64 = 1 << 12;

/// The path of a file that a header names: in the header's folder, or in one below it.
pub(super) fn data_file(header: &Path, key: &str, name: &str) -> Result<PathBuf, ReadError> {
    let below = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    if name.is_empty() || name.contains('\\') || !Path::new(name).components().all(below) {
        let what = "expected a file in the header's folder, or in one below it, as in `raw/image.raw`";
        return Err(ReadError::new(header, format!("{key} is {name:?}; {what}")));
    }
    Ok(header.parent().unwrap_or(Path::new("")).join(name))
}

/// The files of a numbered series: `pattern` has one number in the form of C's `printf`, such as
/// `slice_%03d.raw`. `numbers` are the first one, the last one and the step.
pub(super) fn numbered(
    header: &Path,
    key: &str,
    pattern: &str,
    [first, last, step]: [i64; 3],
) -> Result<Vec<PathBuf>, ReadError> {
    let wrong = |what: String| ReadError::new(header, format!("{key} is {pattern:?}: {what}"));
    let parsed = parse(pattern);
    let (before, fill, width, after) =
        parsed.ok_or_else(|| wrong("expected a name with one number, as in slice_%03d.raw".to_owned()))?;
    let span = last.checked_sub(first).filter(|_| step != 0).map(|span| span.checked_div(step).unwrap_or(-1));
    let Some(span) = span.filter(|span| (0..MAX_FILES as i64).contains(span)) else {
        return Err(wrong(format!("there are no numbers from {first} to {last} in steps of {step}")));
    };
    let name = |place: i64| {
        let number = first + place * step;
        match fill {
            true => format!("{before}{number:0width$}{after}"),
            false => format!("{before}{number:width$}{after}"),
        }
    };
    (0..=span).map(|place| data_file(header, key, &name(place))).collect()
}

/// The text before the number, whether it is filled with zeros, its width, and the text after it.
fn parse(pattern: &str) -> Option<(&str, bool, usize, &str)> {
    let (before, rest) = pattern.split_once('%')?;
    let end = rest.find(['d', 'i', 'u'])?;
    let (digits, after) = (&rest[..end], &rest[end + 1..]);
    let width = if digits.is_empty() { 0 } else { digits.parse().ok().filter(|width| *width <= 20)? };
    (!after.contains('%') && digits.bytes().all(|digit| digit.is_ascii_digit())).then_some((
        before,
        digits.starts_with('0'),
        width,
        after,
    ))
}

/// The files whose names follow a header, one in a line; there must be `count` of them.
pub(super) fn listed(
    header: &Path,
    key: &str,
    file: &mut impl BufRead,
    count: usize,
) -> Result<Vec<PathBuf>, ReadError> {
    let files = listed_any(header, key, file)?;
    if files.len() == count {
        return Ok(files);
    }
    Err(ReadError::new(header, format!("{key} lists {} files, and its sizes need {count}", files.len())))
}

/// The files whose names follow a header, any number of them.
pub(super) fn listed_any(header: &Path, key: &str, file: &mut impl BufRead) -> Result<Vec<PathBuf>, ReadError> {
    let mut files = Vec::new();
    loop {
        let mut line = Vec::new();
        file.take(MAX_NAME).read_until(b'\n', &mut line).map_err(|error| ReadError::new(header, error))?;
        if line.is_empty() {
            return Ok(files);
        }
        let name = String::from_utf8_lossy(&line).trim().to_owned();
        if files.len() == MAX_FILES {
            return Err(ReadError::new(header, format!("{key} lists more than {MAX_FILES} files")));
        }
        if !name.is_empty() {
            files.push(data_file(header, key, &name)?);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_by_printf() {
        let names = |pattern: &str, numbers| {
            let files = numbered(Path::new("a/b.mhd"), "key", pattern, numbers).map_err(|error| error.to_string())?;
            Ok::<_, String>(files.iter().map(|file| file.to_string_lossy().into_owned()).collect::<Vec<_>>())
        };
        assert_eq!(names("s_%03d.raw", [9, 11, 1]).expect("files"), ["a/s_009.raw", "a/s_010.raw", "a/s_011.raw"]);
        assert_eq!(names("x/%d", [3, -1, -2]).expect("files"), ["a/x/3", "a/x/1", "a/x/-1"]);
        assert_eq!(names("s%4i", [1, 1, 1]).expect("files"), ["a/s   1"]);
        for pattern in ["s", "s%", "s%s.raw", "s%d%d", "s%-3d", "s%99d", "s%n", "s%x"] {
            assert!(names(pattern, [0, 1, 1]).expect_err(pattern).contains("slice_%03d.raw"), "{pattern}");
        }
        for numbers in [[0, 1, 0], [1, 0, 1], [0, i64::MAX, 1], [i64::MIN, i64::MAX, 1], [i64::MIN, 0, -1]] {
            assert!(names("s%d", numbers).expect_err("no numbers").contains("no numbers"), "{numbers:?}");
        }
        assert!(names("../s%d", [0, 1, 1]).is_err());
    }

    #[test]
    fn files_lie_in_the_folder_of_the_header_or_below_it() {
        let of = |name: &str| data_file(Path::new("a/b.mhd"), "key", name).ok();
        assert_eq!(of("c/d.raw"), Some(PathBuf::from("a/c/d.raw")));
        assert_eq!(of("./d.raw"), Some(PathBuf::from("a/d.raw")));
        for name in ["", "/etc/passwd", "../d.raw", "c/../../d.raw", "..", "c\\d.raw"] {
            assert_eq!(of(name), None, "{name}");
        }
    }
}
