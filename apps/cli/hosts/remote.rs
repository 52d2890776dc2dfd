//! The command that starts a rank, here or through `ssh`: [`Work`].

use std::path::Path;
use std::process::Command;

use super::Place;
use crate::cores;
use crate::error::{Context, Failure, Outcome};
use crate::ranks::{START_DEADLINE, of_ranks};

/// The variable with the command instead of `ssh`, with options: `ssh -p 2222`.
pub const SSH: &str = "HEARTH_SSH";

/// The variable with the program's path on the other hosts, if it differs.
pub const PROGRAM: &str = "HEARTH_REMOTE_PROGRAM";

/// Exit codes of the command on the other host: the folder is missing, the program is missing.
pub const NO_FOLDER: i32 = 97;
/// See [`NO_FOLDER`].
pub const NO_PROGRAM: i32 = 98;

/// The variables that are passed on: settings, none of them secret, because the other host shows them
/// as arguments.
const PASSED_ON: [&str; 12] = [
    "RAYON_NUM_THREADS",
    "NO_COLOR",
    "RUST_LOG",
    "CUBECL_AUTOTUNE_LEVEL",
    "HEARTH_GPU_DRIVER",
    "HEARTH_NCCL",
    "HEARTH_PLUGIN_PATH",
    super::rank::PORT,
    "HEARTH_RANGES",
    "HEARTH_ROCTX",
    START_DEADLINE,
    cores::ASKED,
];

/// What every rank runs.
pub struct Work {
    /// The folder of this command.
    pub folder: String,
    /// The program on the other hosts.
    pub program: String,
    /// The program here.
    own: String,
    arguments: Vec<String>,
    /// The words of the command instead of `ssh`.
    ssh: Vec<String>,
}

fn unicode(text: Option<&str>, what: impl FnOnce() -> String) -> Outcome<String> {
    text.map(str::to_owned).ok_or_else(|| Failure::new(format!("--hosts: {} is not Unicode", what())))
}

/// The value of a variable that is not empty.
fn set(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The words of the command that starts a rank on another host: `ssh`, or [`SSH`].
///
/// # Errors
/// An empty command, or one with a quote that is not closed.
pub fn ssh_words() -> Outcome<Vec<String>> {
    let words = words(&set(SSH).unwrap_or_else(|| "ssh".to_owned())).filter(|words| !words.is_empty());
    words.ok_or_else(|| Failure::new(format!("{SSH}: a quote is not closed, or there is no command")))
}

impl Work {
    /// This command, with `--continue` if it is started again.
    ///
    /// # Errors
    /// If the folder, the program, an argument or [`SSH`] cannot be passed on.
    pub fn of_this_command(again: bool) -> Outcome<Self> {
        let folder = std::env::current_dir().while_doing(|| "--hosts: the current folder")?;
        let folder = unicode(folder.to_str(), || format!("the folder {}", folder.display()))?;
        let own = std::env::current_exe().while_doing(|| "--hosts: this program")?;
        let own = unicode(own.to_str(), || format!("this program's path {}", own.display()))?;
        let mut arguments = of_ranks(std::env::args_os().skip(1))
            .iter()
            .map(|argument| unicode(argument.to_str(), || format!("the argument {}", Path::new(argument).display())))
            .collect::<Outcome<Vec<String>>>()?;
        if again {
            arguments.push("--continue".to_owned());
        }
        let program = set(PROGRAM).unwrap_or_else(|| own.clone());
        Ok(Work { folder, program, own, arguments, ssh: ssh_words()? })
    }

    /// The command instead of `ssh`.
    pub fn ssh(&self) -> String {
        self.ssh.join(" ")
    }

    /// The command that starts a rank.
    pub fn command(&self, place: &Place<'_>) -> Command {
        let variables = variables(place);
        if place.host.is_here() {
            let mut command = Command::new(&self.own);
            command.args(&self.arguments).envs(variables);
            return command;
        }
        let mut command = Command::new(&self.ssh[0]);
        command.args(&self.ssh[1..]);
        if Path::new(&self.ssh[0]).file_name().is_some_and(|name| name == "ssh") {
            // Ranks are started together: none can ask for a password.
            command.args(["-o", "BatchMode=yes"]);
        }
        command.arg(&place.host.target).arg(self.line(&variables));
        command
    }

    /// The line for the shell of the other host, whichever it is.
    fn line(&self, variables: &[(String, String)]) -> String {
        let (folder, program) = (quoted(&self.folder), quoted(&self.program));
        let mut run: Vec<String> = variables.iter().map(|(name, value)| quoted(&format!("{name}={value}"))).collect();
        run.push(program.clone());
        run.extend(self.arguments.iter().map(|argument| quoted(argument)));
        let run = run.join(" ");
        let script = format!(
            "cd {folder} || exit {NO_FOLDER}; command -v {program} >/dev/null 2>&1 || exit {NO_PROGRAM}; exec env {run}"
        );
        format!("exec sh -c {}", quoted(&script))
    }
}

/// The variables of a rank: its place, the share of the cores, and those passed on.
fn variables(place: &Place<'_>) -> Vec<(String, String)> {
    let mut all = vec![
        ("HEARTH_RANK".to_owned(), place.rank.to_string()),
        ("HEARTH_WORLD_SIZE".to_owned(), place.world.to_string()),
        ("HEARTH_LOCAL_RANK".to_owned(), place.local.to_string()),
    ];
    let passed_on = PASSED_ON.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)));
    all.extend(passed_on);
    if std::env::var_os(cores::ASKED).is_none() {
        all.push((cores::ASKED.to_owned(), place.host.ranks.to_string()));
    }
    all
}

/// A word for a shell, with the same meaning in `sh`, `csh` and `fish`.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Splits a command into words as a shell does, with quotes; `None` if a quote is not closed.
fn words(text: &str) -> Option<Vec<String>> {
    let (mut found, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => word.get_or_insert_default().push(letters.next()?),
            (None, c) if c.is_whitespace() => found.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    found.extend(word);
    quote.is_none().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(arguments: &[&str]) -> Work {
        Work {
            folder: "/data/it's here".to_owned(),
            program: "/opt/hearth $1".to_owned(),
            own: "/opt/hearth".to_owned(),
            arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
            ssh: vec!["ssh".to_owned(), "-p".to_owned(), "22".to_owned()],
        }
    }

    #[test]
    fn words_are_split_as_by_a_shell() {
        let of = |text: &str| words(text).map(|words| words.join("|"));
        assert_eq!(of("ssh -p 22").as_deref(), Some("ssh|-p|22"));
        assert_eq!(of(r#"  'my ssh' -o "User=a \" b" c\ d '' "#).as_deref(), Some("my ssh|-o|User=a \" b|c d|"));
        assert_eq!(of("").as_deref(), Some(""));
        assert_eq!((of("'open"), of("open\\")), (None, None));
    }

    /// A shell takes the quoted words apart into what they were.
    #[cfg(unix)]
    #[test]
    fn a_shell_reads_what_was_quoted() {
        let odd = ["it's", "a b", "$HOME `id` \\n", "\"", "*", "", ";exit 3", "ü"];
        let line = odd.map(quoted).join(" ");
        let script = format!("printf '%s\\n' {line}");
        let output = Command::new("sh").args(["-c", &script]).output().expect("a shell");
        assert_eq!(String::from_utf8_lossy(&output.stdout).lines().collect::<Vec<_>>(), odd);
        // Within one more shell, as on the other host.
        let twice = format!("exec sh -c {}", quoted(&script));
        let output = Command::new("sh").args(["-c", &twice]).output().expect("a shell");
        assert_eq!(String::from_utf8_lossy(&output.stdout).lines().collect::<Vec<_>>(), odd);
    }

    #[test]
    fn the_command_names_host_folder_program_and_place() {
        let host = "me@node:2".parse().expect("a host");
        let command = work(&["train", "--out", "a b"]).command(&Place { host: &host, rank: 3, world: 4, local: 1 });
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
        assert_eq!(words[..5], ["-p", "22", "-o", "BatchMode=yes", "me@node"]);
        let line = words[5].replace(r"'\''", "'");
        assert!(words.len() == 6 && line.starts_with("exec sh -c 'cd '/data/it"), "{line}");
        assert!(line.contains("'HEARTH_RANK=3' 'HEARTH_WORLD_SIZE=4' 'HEARTH_LOCAL_RANK=1'"), "{line}");
        assert!(line.ends_with("'/opt/hearth $1' 'train' '--out' 'a b''"), "{line}");
        let here = "localhost:2".parse().expect("a host");
        let command = work(&["train"]).command(&Place { host: &here, rank: 0, world: 4, local: 0 });
        assert_eq!((command.get_program(), command.get_args().count()), ("/opt/hearth".as_ref(), 1));
    }
}
