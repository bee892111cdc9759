//! Arguments of the program.

use std::os::fd::RawFd;
use std::path::PathBuf;

use clap::Parser;

/// Parameters that are fixed for the life of a host.
#[derive(Debug, Parser)]
#[command(version, about = "One WebKit browser, controlled by commands on standard input")]
pub struct Arguments {
    /// Device pixel ratio
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=4))]
    pub scale: u32,
    /// Viewport in CSS pixels
    #[arg(long, value_parser = size)]
    pub viewport: Size,
    /// Screen size in CSS pixels
    #[arg(long, value_parser = size)]
    pub screen: Size,
    /// Open file descriptor from which the number of the display can be read
    #[arg(long)]
    pub display_from: RawFd,
    /// Folder for the storage of web sites. Cookies are kept in memory only
    #[arg(long)]
    pub data_dir: PathBuf,
    /// Folder of the web-process extension, which should contain no other library
    #[arg(long)]
    pub extension_dir: PathBuf,
    /// Run web processes in bubblewrap
    #[arg(long)]
    pub sandbox: bool,
}

/// Width and height.
pub type Size = (i32, i32);

/// Parses a size such as `393x852`.
fn size(text: &str) -> Result<Size, String> {
    let sides = text.split_once('x').and_then(|(width, height)| Some((width.parse().ok()?, height.parse().ok()?)));
    sides.ok_or_else(|| format!("{text:?} is not a size such as 393x852"))
}
