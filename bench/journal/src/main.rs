//! The performance of the journal on this disk: commits compared with a bare write and fdatasync of
//! the same bytes, and the time to open a log with many messages.

mod bare;
mod commits;
/// The node's own files, without the rest of the node, which takes minutes to build.
#[expect(unreachable_pub, reason = "in the node it is reachable")]
#[path = "../../../crates/node/src/disk.rs"]
mod disk;
mod restart;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

const USAGE: &str =
    "usage: enmasse-journal-bench [--folder DIR] [--seconds S] [--groups 1,10,100,1000] [--stored 1000000]
  --folder DIR   where to write (default: a folder in the system's folder for temporary files); emptied afterwards
  --seconds S    how long the log runs in each case, and the control (default 5)
  --groups LIST  records of 1 KiB in one commit (default 1,10,100,1000); `-` for none
  --stored LIST  messages of 1 KiB in a log that is opened (default 1000000); `-` for none";

const SLICE: Duration = Duration::from_millis(200);

/// The command line options.
struct Options {
    folder: PathBuf,
    seconds: f64,
    groups: Vec<usize>,
    stored: Vec<u64>,
}

fn main() -> ExitCode {
    let run = parse(std::env::args().skip(1)).and_then(|options| measure(&options).map_err(|error| error.to_string()));
    match run {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("enmasse-journal-bench: {message}");
            ExitCode::FAILURE
        }
    }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let folder = std::env::temp_dir().join(format!("enmasse-journal-bench-{}", std::process::id()));
    let mut options = Options { folder, seconds: 5.0, groups: vec![1, 10, 100, 1000], stored: vec![1_000_000] };
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or(USAGE)?;
        let wrong = || format!("{name} {value}: not understood\n{USAGE}");
        match name.as_str() {
            "--folder" => options.folder = PathBuf::from(&value).join("journal-bench"),
            "--seconds" => options.seconds = value.parse().map_err(|_| wrong())?,
            "--groups" => options.groups = list(&value).ok_or_else(wrong)?,
            "--stored" => options.stored = list(&value).ok_or_else(wrong)?,
            _ => return Err(USAGE.to_owned()),
        }
    }
    Ok(options)
}

fn list<T: std::str::FromStr>(text: &str) -> Option<Vec<T>> {
    if text == "-" {
        return Some(Vec::new());
    }
    text.split(',').map(|number| number.parse().ok()).collect()
}

fn measure(options: &Options) -> Result<(), commits::Failed> {
    if !options.groups.is_empty() {
        println!("{}", commits::Results::HEADING);
    }
    for &group in &options.groups {
        for segments in [commits::Segments::Growing, commits::Segments::Recycled] {
            println!("{}", compare(options, group, segments)?);
        }
    }
    if !options.stored.is_empty() {
        println!("{}", restart::HEADING);
    }
    for &count in &options.stored {
        let folder = TempFolder::new(&options.folder)?;
        println!("{}", restart::run(&folder.0, count)?);
    }
    Ok(())
}

/// Alternates the log and the control in short slices, so that other load on the machine affects
/// both.
fn compare(options: &Options, group: usize, segments: commits::Segments) -> Result<String, commits::Failed> {
    let one = TempFolder::new(&options.folder.join("log"))?;
    let other = TempFolder::new(&options.folder.join("bare"))?;
    let mut loaded = commits::Loaded::new(&one.0, group, segments)?;
    let mut bare = bare::Bare::new(&other.0, loaded.commit_bytes(), segments)?;
    let (mut of_log, mut of_bare) = (commits::Stopwatch::default(), commits::Stopwatch::default());
    let slices = (options.seconds / SLICE.as_secs_f64()).ceil() as usize;
    for _ in 0..slices {
        of_log.slice(SLICE, &mut loaded)?;
        of_bare.slice(SLICE, &mut bare)?;
    }
    let bytes = loaded.commit_bytes();
    Ok(of_log.line(bytes).row(group, segments, &of_bare.line(bytes)))
}

/// A folder that is created empty and removed afterwards.
struct TempFolder(PathBuf);

impl TempFolder {
    fn new(path: &std::path::Path) -> std::io::Result<Self> {
        let _ = std::fs::remove_dir_all(path);
        std::fs::create_dir_all(path)?;
        Ok(Self(path.to_owned()))
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
