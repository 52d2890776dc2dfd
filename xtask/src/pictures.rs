//! `cargo xtask pictures`: what a user sees at each step, as pictures for the pages of `docs/`. It runs
//! the built program in a temporary folder, draws what a terminal shows, and lets Chromium draw pages.

mod palette;
mod terminal;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hearth_pictures::Canvas;

use crate::{Outcome, output_of};
use palette::{decode, encode};
use terminal::{Line, SCREEN, draw, plain, screen, shortened};

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

/// The maximum size of a file in bytes.
const MOST: usize = 150_000;
/// The case of the pictures; the demo validates on it.
const CASE: &str = "spleen_20";
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

#[cfg(test)]
mod tests {
    use super::terminal::plain;
    use super::*;

    fn shell() -> Shell {
        Shell { program: "/opt/build/hearth".into(), place: "/tmp/made".into() }
    }

    #[test]
    fn folders_of_this_machine_are_refused() {
        assert!(shell().check(&plain(&[("hearth demo", "picture  hearth-demo/overlay.png")])).is_ok());
        for place in ["/tmp/made", "/opt/build/hearth"] {
            assert!(shell().check(&plain(&[("hearth demo", &format!("picture  {place}/overlay.png"))])).is_err());
        }
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
