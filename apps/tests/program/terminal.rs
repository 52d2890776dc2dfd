//! The output on a terminal: bars that disappear when they are done, lines that stay complete.

use crate::common::{phantom, plugins_are_built, text, tiny_recipe};

/// The lines on a screen after these bytes, without text that was overwritten.
fn screen(bytes: &[u8]) -> Vec<String> {
    let mut lines: Vec<Vec<char>> = vec![Vec::new()];
    let (mut row, mut column) = (0_usize, 0_usize);
    let text = String::from_utf8_lossy(bytes).into_owned();
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\r' => column = 0,
            '\n' => {
                row += 1;
                if row == lines.len() {
                    lines.push(Vec::new());
                }
            }
            '\x1b' if letters.peek() == Some(&'[') => {
                letters.next();
                let mut number = String::new();
                let order = loop {
                    match letters.next() {
                        Some(digit) if digit.is_ascii_digit() || matches!(digit, ';' | '?') => number.push(digit),
                        other => break other,
                    }
                };
                let count = number.parse::<usize>().unwrap_or(1);
                match order {
                    Some('K') if number == "2" => lines[row].clear(),
                    Some('K') => lines[row].truncate(column),
                    Some('A') => row = row.saturating_sub(count),
                    Some('B') => row = (row + count).min(lines.len() - 1),
                    Some('D') => column = column.saturating_sub(count),
                    Some('C') => column += count,
                    _ => {}
                }
            }
            letter => {
                let line = &mut lines[row];
                line.resize(line.len().max(column + 1), ' ');
                line[column] = letter;
                column += 1;
            }
        }
    }
    lines.into_iter().map(|line| line.into_iter().collect::<String>().trim_end().to_owned()).collect()
}

/// Runs under a terminal of 100 columns.
fn watched(arguments: &[&str]) -> (String, Vec<String>) {
    let program = env!("CARGO_BIN_EXE_hearth");
    let quoted: Vec<String> = std::iter::once(&program).chain(arguments).map(|word| format!("'{word}'")).collect();
    let command = format!("stty cols 100 rows 40; exec {}", quoted.join(" "));
    let output = std::process::Command::new("script")
        .args(["-qec", &command, "/dev/null"])
        .env("TERM", "xterm")
        .env("NO_COLOR", "1")
        .env_remove("RUST_LOG")
        .stdin(std::process::Stdio::null())
        .output()
        .expect("script(1) is there");
    let raw = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{raw}");
    let screen = screen(&output.stdout);
    (raw, screen)
}

#[test]
fn a_screen_forgets_what_is_drawn_over() {
    assert_eq!(screen(b"bar 1\r\x1b[2Kline\r\nbar 2\x1b[1A\rL\x1b[1B\r\x1b[2Kend"), ["Line", "end"]);
}

#[test]
fn no_bar_is_left_between_the_lines_of_a_log() {
    assert!(plugins_are_built());
    let dir = tempfile::tempdir().expect("a folder");
    let (recipe, data, out) = (text(&tiny_recipe(dir.path())), phantom(dir.path(), 4), text(&dir.path().join("run")));
    let data = text(&data);
    let train = ["train", &recipe, "--data", &data, "--out", &out, "--epochs", "3", "--device", "cpu", "-v"];
    let (raw, lines) = watched(&train);
    let shown = lines.join("\n");
    // There were bars of training and of validation, and lines of the log between them.
    assert!(raw.contains("epoch 1/3 [") && raw.contains("validation "), "{raw}");
    assert!(shown.contains("INFO"), "{shown}");
    let is_bar = |line: &String| line.contains("/3 [") || line.contains('\u{2588}') || line.contains('\u{2591}');
    let dead: Vec<&String> = lines.iter().filter(|line| is_bar(line)).collect();
    assert!(dead.is_empty(), "{dead:?} in\n{shown}");
    for epoch in ["epoch 1/3  loss", "epoch 2/3  loss", "epoch 3/3  loss"] {
        assert_eq!(lines.iter().filter(|line| line.starts_with(epoch)).count(), 1, "{shown}");
    }
    let evaluate = ["evaluate", &out, "--data", &data, "--device", "cpu", "--all", "-v"];
    let (raw, lines) = watched(&evaluate);
    assert!(raw.contains("evaluated "), "{raw}");
    assert!(!lines.iter().any(is_bar) && lines.iter().any(|line| line.starts_with("mean")), "{}", lines.join("\n"));
    let labels = text(&dir.path().join("labels"));
    let images = text(&dir.path().join("data/imagesTr"));
    let (raw, lines) = watched(&["predict", &out, "-i", &images, "-o", &labels, "--device", "cpu", "-v"]);
    assert!(raw.contains("windows "), "{raw}");
    assert!(!lines.iter().any(|line| line.contains("windows ")), "{}", lines.join("\n"));
    assert_eq!(lines.iter().filter(|line| line.ends_with("_seg.nii.gz")).count(), 4, "{}", lines.join("\n"));
}
