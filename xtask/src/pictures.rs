//! `cargo xtask pictures`: what a user sees at each step, as pictures for the pages of `docs/`. It runs
//! the built program in a temporary folder, draws what a terminal shows, and lets Chromium draw pages.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ab_glyph::{Font, FontRef, PxScale, ScaleFont};
use hearth_pictures::{Canvas, Rgb, colours};

use crate::{Outcome, output_of};

/// Arguments of `cargo xtask pictures`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The built program
    #[arg(value_name = "PROGRAM", default_value = "target/release/hearth")]
    program: PathBuf,
    /// The folder for the pictures
    #[arg(long, value_name = "DIR", default_value = "docs/images")]
    out: PathBuf,
    /// The number of epochs of both trainings: a few check the command, with another --out
    #[arg(long, value_name = "N")]
    epochs: Option<u64>,
}

/// The font of terminals, in which all letters have the same width.
const FONT: &[u8] = include_bytes!("../font/DejaVuSansMono-subset.ttf");
/// The width and height of a letter in pixels, and of the screen in letters.
const LETTER: (usize, usize) = (9, 18);
const SCREEN: (usize, usize) = (100, 30);
/// The margin of a terminal in pixels.
const MARGIN: usize = 18;
/// The maximum size of a file in bytes.
const MOST: usize = 150_000;
/// The case of the pictures; the demo validates on it.
const CASE: &str = "spleen_20";
/// The colours of a prompt, of a command's output, and of the remarks in it.
const PROMPT: Rgb = [118, 200, 120];
const OUTPUT: Rgb = [204, 204, 210];
const REMARK: Rgb = [125, 125, 135];

/// The letters of a line with their colours.
type Line = Vec<(char, Rgb)>;

/// Makes all pictures.
pub fn run(args: &Args) -> Outcome {
    let place = tempfile::tempdir()?;
    let program = args.program.canonicalize().map_err(|error| {
        format!("{}: {error}; build it (`cargo build --release`) or name a built one", args.program.display())
    })?;
    let shell = Shell { program, place: place.path().to_owned() };
    let album = Album { out: args.out.clone() };
    fs::create_dir_all(&album.out)?;
    let browser = browser();
    let epochs = args.epochs.map(|epochs| format!(" --epochs {epochs}")).unwrap_or_default();

    let demo = format!("hearth demo{epochs}");
    let shown = shortened(&shell.run(&demo)?);
    album.terminal("terminal-demo", &shell, &plain(&[(&demo, &shown)]))?;

    let image = format!("hearth-demo/data/imagesTr/{CASE}.nii.gz");
    let label = format!("hearth-demo/data/labelsTr/{CASE}.nii.gz");
    let predict = format!("hearth predict hearth-demo/run -i {image} -o labels --statistics");
    let metrics =
        format!("hearth metrics -p labels/{CASE}_seg.nii.gz -l {label} --labels background,spleen -m dice -m hd95");
    let predicted = shell.run(&predict)?;
    let statistics = fs::read_to_string(shell.place.join(format!("labels/{CASE}_statistics.json")))?;
    let measured = shell.run(&metrics)?;
    let cat = format!("cat labels/{CASE}_statistics.json");
    let steps = [(predict.as_str(), predicted.as_str()), (&cat, &statistics), (&metrics, &measured)];
    album.terminal("terminal-predict", &shell, &plain(&steps))?;

    let length = args.epochs.unwrap_or(25);
    let train = format!("hearth train demo --data hearth-demo/data --out runs/first --epochs {length}");
    let dry = format!("{train} --dry-run");
    album.terminal("terminal-dry-run", &shell, &plain(&[(&dry, &shell.run(&dry)?)]))?;

    watch(&shell, &album, &train, length, browser)?;
    match browser {
        Some(browser) => report(&shell, &album, browser)?,
        None => println!("no Chromium found: watch-page.png, report.png and viewer.png are left as they are"),
    }
    Ok(())
}

/// Draws a run while it trains: the view in the terminal, and the page.
fn watch(shell: &Shell, album: &Album, train: &str, epochs: u64, browser: Option<&str>) -> Outcome {
    let log = shell.place.join("train.log");
    let file = File::create(&log)?;
    let mut training = Running(shell.command(train).stdout(file.try_clone()?).stderr(file).spawn()?);
    // Far enough for curves. A short training may have ended, and then has a last state.
    let rows = shell.place.join("runs/first/metrics.csv");
    let enough = usize::try_from(epochs * 3 / 5)?;
    while fs::read_to_string(&rows).map_or(0, |text| text.lines().count()) <= enough {
        if let Some(status) = training.0.try_wait()? {
            if !status.success() {
                return Err(format!("{train} failed: {}", fs::read_to_string(&log)?.trim()).into());
            }
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let lines = match screen(&shell.screen("watch runs/first")?) {
        Some(lines) => lines,
        None => plain(&[("hearth watch runs/first --once", &shell.run("hearth watch runs/first --once")?)]),
    };
    album.terminal("watch", shell, &lines)?;
    if let Some(browser) = browser {
        let mut server = Running(
            shell.command("hearth watch runs/first --page").stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?,
        );
        let mut address = String::new();
        // Open until the server ends, which may print more.
        let mut output = BufReader::new(server.0.stdout.take().ok_or("no output")?);
        output.read_line(&mut address)?;
        if !address.starts_with("http://127.0.0.1:") {
            return Err(format!("hearth watch --page printed {address:?}: expected its address").into());
        }
        album.save("watch-page", &shell.photograph(browser, address.trim(), (1000, 915))?)?;
    }
    if !training.0.wait()?.success() {
        return Err(format!("{train} failed: {}", fs::read_to_string(&log)?.trim()).into());
    }
    Ok(())
}

/// Draws the report of the demo's run: its first screen, and its viewer of volumes.
fn report(shell: &Shell, album: &Album, browser: &str) -> Outcome {
    shell.run("hearth evaluate hearth-demo/run --data hearth-demo/data -o hearth-demo/run/evaluation")?;
    shell.run("hearth predict hearth-demo/run -i hearth-demo/data -o pictures --picture")?;
    shell.run(&format!("hearth report hearth-demo/run --pictures pictures --viewer {CASE} -o spleen.html"))?;
    let page = shell.place.join("spleen.html");
    let address = |page: &Path| format!("file://{}", page.display());
    album.save("report", &shell.photograph(browser, &address(&page), (1000, 690))?)?;
    let text = fs::read_to_string(&page)?;
    let (head, body) = text.split_once("</head>").ok_or("the report has no head")?;
    let alone = shell.place.join("viewer.html");
    let style = "<style>header, nav, footer, main > section:not(#volumes) { display: none } \
                 main > section { border: 0 !important }</style></head>";
    fs::write(&alone, [head, style, body].concat())?;
    album.save("viewer", &shell.photograph(browser, &address(&alone), (1000, 1000))?)
}

/// A process that ends with this value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A folder in which commands run.
struct Shell {
    program: PathBuf,
    place: PathBuf,
}

impl Shell {
    /// A line such as `hearth demo`, whose words have no spaces.
    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(&self.program);
        #[cfg(unix)]
        std::os::unix::process::CommandExt::arg0(&mut command, "hearth");
        command.args(line.split_whitespace().skip(1)).current_dir(&self.place).stdin(Stdio::null());
        command
    }

    /// Runs a line and returns what a terminal shows: output and messages in their order.
    fn run(&self, line: &str) -> Outcome<String> {
        println!("$ {line}");
        let path = self.place.join("output");
        let file = File::create(&path)?;
        let status = self.command(line).stdout(file.try_clone()?).stderr(file).status()?;
        let text = fs::read_to_string(&path)?;
        if status.success() { Ok(text) } else { Err(format!("{line} failed: {}", text.trim()).into()) }
    }

    /// What the program writes to a terminal in three seconds, until Ctrl-C. Empty without a program
    /// `script` (util-linux), which has a terminal.
    fn screen(&self, line: &str) -> Outcome<String> {
        let inside = format!("stty cols {} rows {}; exec \"$HEARTH\" {line}", SCREEN.0, SCREEN.1);
        let path = self.place.join("screen");
        let mut script = Command::new("script");
        script.args(["--quiet", "--flush", "--command", &inside]).arg(&path).current_dir(&self.place);
        script.env("HEARTH", &self.program).env("TERM", "xterm-256color").env_remove("NO_COLOR");
        let Ok(child) = script.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn() else {
            return Ok(String::new());
        };
        let mut script = Running(child);
        std::thread::sleep(Duration::from_secs(3));
        if let Some(mut keys) = script.0.stdin.take() {
            // A view that has ended takes no keys.
            let _ = keys.write_all(b"\x03");
            let pressed = Instant::now();
            while script.0.try_wait()?.is_none() && pressed.elapsed() < Duration::from_secs(3) {
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        Ok(fs::read(&path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default())
    }

    /// A page as Chromium draws it in a window of a size.
    fn photograph(&self, browser: &str, address: &str, (width, height): (usize, usize)) -> Outcome<Canvas> {
        let picture = self.place.join("page.png");
        let mut command = Command::new(browser);
        // Without its sandbox, which root cannot have: the pages are our own.
        command.args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--virtual-time-budget=4000",
        ]);
        command.arg(format!("--user-data-dir={}", self.place.join("browser").display()));
        command.arg(format!("--window-size={width},{height}"));
        command.arg(format!("--screenshot={}", picture.display())).arg(address);
        output_of(&mut command)?;
        decode(&fs::read(&picture)?)
    }

    /// Refuses lines that show a folder of this machine.
    fn check(&self, lines: &[Line]) -> Outcome {
        let text: Vec<String> = lines.iter().map(|line| line.iter().map(|(letter, _)| letter).collect()).collect();
        let home = std::env::var("HOME").unwrap_or_default();
        let places = [self.place.display().to_string(), self.program.display().to_string(), home];
        let found = text.iter().find(|line| places.iter().any(|place| place.len() > 1 && line.contains(place)));
        found.map_or(Ok(()), |line| Err(format!("a picture would show a folder of this machine: {line}").into()))
    }
}

/// The folder of the pictures.
struct Album {
    out: PathBuf,
}

impl Album {
    fn terminal(&self, name: &str, shell: &Shell, lines: &[Line]) -> Outcome {
        shell.check(lines)?;
        self.save(name, &draw(lines)?)
    }

    fn save(&self, name: &str, picture: &Canvas) -> Outcome {
        let file = encode(picture)?;
        if file.len() > MOST {
            return Err(format!("{name}.png has {} bytes: expected at most {MOST}; crop it", file.len()).into());
        }
        let path = self.out.join(format!("{name}.png"));
        fs::write(&path, &file).map_err(|error| format!("{}: {error}", path.display()))?;
        println!("{}: {} x {}, {} bytes", path.display(), picture.width(), picture.height(), file.len());
        Ok(())
    }
}

/// The first Chromium of this machine.
fn browser() -> Option<&'static str> {
    let names = ["chromium", "chromium-browser", "google-chrome", "chrome"];
    names.into_iter().find(|name| output_of(Command::new(name).arg("--version")).is_ok())
}

/// The output of the demo without its counters, which a terminal replaces, and without most of its
/// epochs.
fn shortened(text: &str) -> String {
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
fn plain(steps: &[(&str, &str)]) -> Vec<Line> {
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
fn screen(text: &str) -> Option<Vec<Line>> {
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
fn draw(lines: &[Line]) -> Outcome<Canvas> {
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

/// A picture as PNG with at most 256 colours; those of a picture with more are merged, the most
/// different ones last.
fn encode(picture: &Canvas) -> Outcome<Vec<u8>> {
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
fn decode(file: &[u8]) -> Outcome<Canvas> {
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

    fn shell() -> Shell {
        Shell { program: "/opt/build/hearth".into(), place: "/tmp/made".into() }
    }

    fn text(lines: &[Line]) -> Vec<String> {
        lines.iter().map(|line| line.iter().map(|(letter, _)| letter).collect()).collect()
    }

    /// The columns of pixels that are not background.
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

    #[test]
    fn folders_of_this_machine_are_refused() {
        assert!(shell().check(&plain(&[("hearth demo", "picture  hearth-demo/overlay.png")])).is_ok());
        for place in ["/tmp/made", "/opt/build/hearth"] {
            assert!(shell().check(&plain(&[("hearth demo", &format!("picture  {place}/overlay.png"))])).is_err());
        }
    }

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

    #[test]
    fn each_picture_is_small_and_on_a_page_with_a_text() {
        let docs = crate::root().join("docs");
        let pages: Vec<String> = (fs::read_dir(&docs).unwrap().flatten().map(|entry| entry.path()))
            .filter(|path| path.extension().is_some_and(|end| end == "md"))
            .map(|path| fs::read_to_string(path).unwrap())
            .collect();
        let names =
            ["terminal-demo", "terminal-predict", "terminal-dry-run", "watch", "watch-page", "report", "viewer"];
        for name in names {
            let size = fs::metadata(docs.join(format!("images/{name}.png"))).unwrap().len();
            assert!(size <= MOST as u64, "{name}: {size}");
            let texts = pages.iter().filter_map(|page| {
                let before = page.split_once(&format!("](images/{name}.png)"))?.0;
                Some(before.rsplit_once("![")?.1.to_owned())
            });
            assert!(texts.into_iter().any(|text| text.len() > 20 && !text.contains(']')), "{name}");
        }
    }
}
