//! Terminals as pictures: commands, their output, and the screens of programs that draw on all of it.

use ab_glyph::{Font, FontRef, PxScale, ScaleFont};
use hearth_pictures::{Canvas, Rgb, colours};

use crate::Outcome;

/// The font of terminals, in which all letters have the same width.
const FONT: &[u8] = include_bytes!("../../font/DejaVuSansMono-subset.ttf");
/// The width and height of a letter in pixels, and of the screen in letters.
pub(super) const LETTER: (usize, usize) = (9, 18);
pub(super) const SCREEN: (usize, usize) = (100, 30);
/// The margin of a terminal in pixels.
pub(super) const MARGIN: usize = 18;
/// The colours of a prompt, of a command's output, and of the remarks in it.
const PROMPT: Rgb = [118, 200, 120];
const OUTPUT: Rgb = [204, 204, 210];
const REMARK: Rgb = [125, 125, 135];

/// The letters of a line with their colours.
pub(super) type Line = Vec<(char, Rgb)>;

/// The output of the demo without its counters, which a terminal replaces, and without most of its
/// epochs.
pub(super) fn shortened(text: &str) -> String {
    let epoch = |line: &str| line.strip_prefix("epoch ").and_then(|rest| rest.split('/').next()?.parse::<usize>().ok());
    let counter = |line: &str| {
        let words: Vec<&str> = line.rsplit(' ').take(3).collect();
        matches!(words[..], [all, "of", done] if [all, done].iter().all(|word| word.parse::<u64>().is_ok()))
    };
    let epochs = text.lines().filter_map(epoch).max().unwrap_or(0);
    let mut lines = Vec::new();
    for line in text.lines().filter(|line| !counter(line)) {
        let left_out = epoch(line).is_some_and(|epoch| epoch > 5 && epoch + 2 <= epochs);
        let shown = if left_out { "..." } else { line };
        if !left_out || lines.last() != Some(&shown) {
            lines.push(shown);
        }
    }
    lines.join("\n")
}

/// Commands with their outputs, cut to the screen.
pub(super) fn plain(steps: &[(&str, &str)]) -> Vec<Line> {
    let mut lines = Vec::<Line>::new();
    for (command, output) in steps {
        if !lines.is_empty() {
            lines.push(Vec::new());
        }
        let mut column = 0;
        let mut words: Vec<Line> = vec![vec![('$', PROMPT)]];
        for word in command.split(' ') {
            column += 1 + word.chars().count();
            if column + 2 > SCREEN.0 {
                words.last_mut().into_iter().for_each(|line| line.extend([(' ', OUTPUT), ('\\', REMARK)]));
                words.push(vec![(' ', OUTPUT); 3]);
                column = 4 + word.chars().count();
            }
            words.last_mut().into_iter().for_each(|line| {
                line.push((' ', OUTPUT));
                line.extend(word.chars().map(|letter| (letter, colours::TEXT)));
            });
        }
        lines.extend(words);
        let rest = SCREEN.1.saturating_sub(lines.len() + 1);
        let all: Vec<&str> = output.trim_end().lines().collect();
        let kept = if all.len() > rest + 1 { &all[..rest] } else { &all[..] };
        lines.extend(kept.iter().map(|line| coloured(line)));
        if kept.len() < all.len() {
            lines.push(coloured("..."));
        }
    }
    lines
}

/// A line of output, cut to the width of the screen.
fn coloured(line: &str) -> Line {
    let colour = if line == "..." { REMARK } else { OUTPUT };
    let mut letters: Line = line.chars().map(|letter| (letter, colour)).collect();
    if letters.len() > SCREEN.0 {
        letters.truncate(SCREEN.0 - 1);
        letters.push(('…', REMARK));
    }
    letters
}

/// The newest complete view in the output of a program that draws the whole screen each time, from
/// the upper left corner.
pub(super) fn screen(text: &str) -> Option<Vec<Line>> {
    let newest = text.rsplit_once("\x1b[H")?.1;
    let newest = newest.split("\x1b[?").next().unwrap_or(newest);
    let mut lines = Vec::<Line>::new();
    let mut colour = OUTPUT;
    for (number, part) in newest.split('\x1b').enumerate() {
        let (code, letters) = match part.find(|letter: char| letter.is_ascii_alphabetic()) {
            Some(end) if number > 0 => part.split_at(end + 1),
            _ => ("", part),
        };
        match code.chars().last() {
            Some('H') => lines.push(Vec::new()),
            Some('m') => colour = code[1..code.len() - 1].split(';').fold(OUTPUT, style),
            _ => {}
        }
        // After the end of a line are only keys that the terminal echoes.
        if !code.ends_with('K') {
            lines.last_mut().into_iter().for_each(|line| line.extend(letters.chars().map(|letter| (letter, colour))));
        }
    }
    for line in &mut lines {
        let end = line.iter().rposition(|(letter, _)| !letter.is_whitespace()).map_or(0, |last| last + 1);
        line.truncate(end);
    }
    Some(lines)
}

/// The colour after a code of a terminal's style.
fn style(before: Rgb, code: &str) -> Rgb {
    match code {
        "0" => OUTPUT,
        "1" => colours::TEXT,
        "2" => REMARK,
        "31" => [240, 110, 100],
        "32" => PROMPT,
        "33" => [230, 190, 90],
        "34" => colours::CURVE,
        "36" => [90, 190, 235],
        _ => before,
    }
}

/// Draws a terminal.
pub(super) fn draw(lines: &[Line]) -> Outcome<Canvas> {
    let font = FontRef::try_from_slice(FONT)?;
    let size = LETTER.0 as f32 * font.height_unscaled() / font.h_advance_unscaled(font.glyph_id('0'));
    let scaled = font.as_scaled(PxScale::from(size));
    let height = lines.len() * LETTER.1 + 2 * MARGIN;
    let mut canvas = Canvas::new(SCREEN.0 * LETTER.0 + 2 * MARGIN, height, colours::BACKGROUND);
    for (row, line) in lines.iter().enumerate() {
        for (column, &(letter, colour)) in line.iter().enumerate() {
            let (x, y) = (MARGIN + column * LETTER.0, MARGIN + row * LETTER.1);
            if let dots @ 1..=0xff = u32::from(letter).wrapping_sub(0x2800) {
                braille(&mut canvas, (x, y), dots, colour);
                continue;
            }
            let base = ab_glyph::point(x as f32, y as f32 + scaled.ascent());
            let Some(outline) = font.outline_glyph(font.glyph_id(letter).with_scale_and_position(size, base)) else {
                continue;
            };
            let corner = outline.px_bounds().min;
            outline.draw(|dx, dy, part| {
                let (x, y) = ((corner.x + dx as f32) as usize, (corner.y + dy as f32) as usize);
                if x < canvas.width() && y < canvas.height() {
                    let part = part.clamp(0.0, 1.0);
                    let behind = canvas.get(x, y);
                    let mixed = |c: usize| f32::from(behind[c]) * (1.0 - part) + f32::from(colour[c]) * part;
                    canvas.set(x, y, std::array::from_fn(|c| mixed(c).round() as u8));
                }
            });
        }
    }
    Ok(canvas)
}

/// Draws the dots of a braille letter, of which curves consist and which the font lacks.
fn braille(canvas: &mut Canvas, (x, y): (usize, usize), dots: u32, colour: Rgb) {
    const PLACES: [(usize, usize); 8] = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3)];
    for (bit, (column, row)) in PLACES.into_iter().enumerate() {
        if (dots >> bit) & 1 == 1 {
            let (left, top) = (column * LETTER.0 / 2 + 1, row * LETTER.1 / 4 + 1);
            canvas.fill(x + left, y + top, 3, 3, colour);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn text(lines: &[Line]) -> Vec<String> {
        lines.iter().map(|line| line.iter().map(|(letter, _)| letter).collect()).collect()
    }

    fn lit(picture: &Canvas, rows: std::ops::Range<usize>) -> BTreeSet<usize> {
        let dark = |x: usize| rows.clone().all(|y| picture.get(x, y) == colours::BACKGROUND);
        (0..picture.width()).filter(|x| !dark(*x)).collect()
    }

    #[test]
    fn columns_of_a_terminal_line_up() {
        let picture = draw(&[coloured("iii|"), coloured("mmm|"), coloured("   |")]).unwrap();
        let bar = |row: usize| {
            let top = MARGIN + row * LETTER.1;
            let from = MARGIN + 3 * LETTER.0;
            lit(&picture, top..top + LETTER.1).into_iter().filter(|x| *x >= from).collect::<Vec<usize>>()
        };
        assert!(!bar(0).is_empty() && bar(0) == bar(1) && bar(1) == bar(2));
        assert_eq!(picture.width(), 100 * LETTER.0 + 2 * MARGIN);
    }

    #[test]
    fn curves_have_the_dots_of_their_braille_letters() {
        // U+2801 is the dot in the upper left corner, U+28FF are all eight.
        let one = draw(&[vec![('\u{2801}', OUTPUT)]]).unwrap();
        assert!(one.count(OUTPUT) > 0 && lit(&one, 0..MARGIN + LETTER.1 / 4 + 1).iter().all(|x| *x < MARGIN + 5));
        assert_eq!(one.count(OUTPUT) * 8, draw(&[vec![('\u{28ff}', OUTPUT)]]).unwrap().count(OUTPUT));
        assert_eq!(draw(&[vec![('\u{2800}', OUTPUT)]]).unwrap().count(OUTPUT), 0);
    }

    #[test]
    fn the_newest_view_of_a_screen_is_read() {
        let recorded = "\x1b[?1049h\x1b[?25l\x1b[2J\x1b[H\x1b[1;1H\x1b[0mold\x1b[0m\x1b[K\
                        \x1b[H\x1b[1;1H\x1b[0;32m▶\x1b[0;1m run\x1b[0m   \x1b[K\x1b[2;1H\x1b[0;2mleft\x1b[0m\x1b[K^C\
                        \x1b[?25h\x1b[?1049lsummary";
        let lines = screen(recorded).unwrap();
        assert_eq!(text(&lines), ["▶ run", "left"]);
        assert_eq!([lines[0][0].1, lines[0][2].1, lines[1][0].1], [PROMPT, colours::TEXT, REMARK]);
        assert!(screen("epoch 2 of 2  loss 0.1").is_none());
    }

    #[test]
    fn the_demo_is_shortened_to_its_steps() {
        let epochs: Vec<String> = (1..=50).map(|epoch| format!("epoch {epoch}/50  loss 0.5")).collect();
        let all = format!("1/4  24 CT volumes\nphantom: 6 of 24\n{}\nmean Dice 0.911", epochs.join("\n"));
        let shown = shortened(&all);
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!((lines[0], lines[1], lines[6]), ("1/4  24 CT volumes", "epoch 1/50  loss 0.5", "..."));
        assert_eq!(lines[7..], ["epoch 49/50  loss 0.5", "epoch 50/50  loss 0.5", "mean Dice 0.911"]);
        let short = "epoch 1/2  loss 0.5\nepoch 2/2  loss 0.4";
        assert_eq!(shortened(short), short);
    }

    #[test]
    fn long_commands_and_lines_fit_on_the_screen() {
        let command = format!("hearth predict {}", "--option value ".repeat(20).trim_end());
        let output = "x".repeat(300) + &"\nline".repeat(99);
        let lines = plain(&[(&command, &output)]);
        assert!(lines.iter().all(|line| line.len() <= SCREEN.0) && lines.len() <= SCREEN.1, "{:?}", text(&lines));
        let (shown, rows) = (text(&lines), text(&lines).iter().position(|line| line.starts_with('x')).unwrap());
        let joined = shown[..rows].iter().map(|line| line.trim_end_matches('\\').trim()).collect::<Vec<_>>().join(" ");
        assert_eq!(joined, format!("$ {command}"));
        assert!(shown[rows].ends_with('…') && shown.last().unwrap() == "...");
    }
}
